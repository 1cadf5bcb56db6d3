// The smallest router: two interfaces with fixed neighbours, no ARP, no ICMP. What cannot be forwarded is lost by name.
//
//   routebricks run conf/ip-router-2.click A=eth1 B=eth2 TABLE=routes.txt

define(
  $A eth1, $MACA 02:00:00:00:01:01, $PEERA 02:00:00:00:01:02,
  $B eth2, $MACB 02:00:00:00:02:01, $PEERB 02:00:00:00:02:02,
  $TABLE routes.txt
);

from_a :: FromDPDKDevice($A) -> check :: CheckIPHeader(14) -> routes :: DirectIPLookup(FILE $TABLE);
from_b :: FromDPDKDevice($B) -> check;

routes[0] -> DecIPTTL -> EtherRewrite($MACA, $PEERA) -> ToDPDKDevice($A);
routes[1] -> DecIPTTL -> EtherRewrite($MACB, $PEERB) -> ToDPDKDevice($B);
