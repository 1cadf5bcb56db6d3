// Two ports joined back to back: whatever comes in on one leaves by the other.
//
//   routebricks run conf/forward.click A=eth1 B=eth2

define($A eth1, $B eth2);

FromDPDKDevice($A) -> ToDPDKDevice($B);
FromDPDKDevice($B) -> ToDPDKDevice($A);
