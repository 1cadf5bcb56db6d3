// A firewall between an inside and an outside network, transparent for everything but IPv4: the inside may open
// connections to the outside; from there only answers, pings and a web server are let in. No state is kept: what counts
// as an answer is told by the TCP flags.
//
//   routebricks run conf/firewall.click INSIDE=eth1 OUTSIDE=eth2 SERVER=192.0.2.80

define($INSIDE eth1, $OUTSIDE eth2, $SERVER 192.0.2.80);

elementclass OnlyIp { |
  // Output 0: IPv4, checked. Output 1: what is not IPv4 (ARP and so on).
  input -> kind :: Classifier(12/0800, -);
  kind[0] -> CheckIPHeader(14) -> [0]output;
  kind[1] -> [1]output;
}

inside  :: FromDPDKDevice($INSIDE)  -> in_kind  :: OnlyIp;
outside :: FromDPDKDevice($OUTSIDE) -> out_kind :: OnlyIp;
to_inside  :: ToDPDKDevice($INSIDE);
to_outside :: ToDPDKDevice($OUTSIDE);

in_kind[0]
  -> leave :: IPFilter(deny dst net 10.0.0.0/8, deny dst port 25, allow all)
  -> to_outside;
in_kind[1] -> to_outside;

out_kind[0]
  -> enter :: IPFilter(
       deny src net 10.0.0.0/8,
       allow tcp && dst host $SERVER && dst port 80,
       allow tcp opt ack,
       allow udp && src port 53,
       allow icmp type echo or icmp type echo-reply or icmp type unreachable or icmp type timeexceeded,
       deny all)
  -> to_inside;
out_kind[1] -> to_inside;
