// An IPv4 router with four interfaces; see ip-router.click, from which it differs in nothing else.
//
//   routebricks run conf/ip-router-4.click TABLE=routes.txt
//
// Routes come from a file, `prefix [gateway] port` a line; port N is the N-th interface below, counted from 0. What
// no route covers is answered with ICMP "net unreachable". Packets for the router itself: it answers pings, and tells
// senders of anything else that nobody listens. NET is an interface's subnet, CAST the broadcast address of it.

define(
  $DEV0 eth1, $IP0 10.0.1.1, $NET0 10.0.1.0/24, $CAST0 10.0.1.255, $MAC0 02:00:00:00:01:01, $MTU0 1500,
  $DEV1 eth2, $IP1 10.0.2.1, $NET1 10.0.2.0/24, $CAST1 10.0.2.255, $MAC1 02:00:00:00:02:01, $MTU1 1500,
  $DEV2 eth3, $IP2 10.0.3.1, $NET2 10.0.3.0/24, $CAST2 10.0.3.255, $MAC2 02:00:00:00:03:01, $MTU2 1400,
  $DEV3 eth4, $IP3 10.0.4.1, $NET3 10.0.4.0/24, $CAST3 10.0.4.255, $MAC3 02:00:00:00:04:01, $MTU3 1500,
  $TABLE routes.txt
);

// One interface. Input: packets that leave here. Output: packets that came in, and errors about packets that could not
// leave, all to be routed.
elementclass Interface { DEV $dev, IP $ip, NET $net, MAC $mac, MTU $mtu, COLOR $color |
  from :: FromDPDKDevice($dev);
  to :: ToDPDKDevice($dev);
  arpq :: ARPQuerier($ip, $mac);

  // In: ARP queries are answered, ARP replies learned, IP packets checked (RFC 1812 5.2.2, 5.3.5.2, 5.3.7).
  from -> station :: HostEtherFilter($mac)
    -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  kind[0] -> ARPResponder($ip $mac) -> to;
  kind[1] -> [1]arpq;
  kind[2] -> Strip(14)
    -> check :: CheckIPHeader(
         BADSRC 0.0.0.0/8 127.0.0.0/8 224.0.0.0/4 240.0.0.0/4 $IP0 $IP1 $IP2 $IP3 $CAST0 $CAST1 $CAST2 $CAST3,
         BADDST 0.0.0.0/8 127.0.0.0/8 255.255.255.255 $CAST0 $CAST1 $CAST2 $CAST3)
    -> Paint($color)
    -> output;
  kind[3] -> Discard;

  // Out: options, TTL, size, link-layer address.
  input -> unicast :: DropBroadcasts
    -> back :: PaintTee($color)
    -> options :: IPGWOptions($ip, $IP0 $IP1 $IP2 $IP3, SOURCE_ROUTE drop)
    -> FixIPSrc($ip)
    -> ttl :: DecIPTTL
    -> fragment :: IPFragmenter($mtu)
    -> [0]arpq
    -> to;

  // What leaves as it came is told to those who can do better: neighbours (RFC 1812 5.2.7.2).
  back[1] -> near :: IPClassifier(src net $net, -);
  near[0] -> redirect :: ICMPError($ip, redirect, host) -> output;
  near[1] -> Discard;

  // What cannot leave is answered (RFC 1812 4.3); the answers are routed like any packet.
  options[1]  -> problem :: ICMPError($ip, parameterproblem)               -> output;
  ttl[1]      -> expired :: ICMPError($ip, timeexceeded)                   -> output;
  fragment[1] -> too_big :: ICMPError($ip, unreachable, needfrag, MTU $mtu) -> output;
}

routes :: DirectIPLookup(
  $IP0/32 4, $IP1/32 4, $IP2/32 4, $IP3/32 4,  // the router itself
  0.0.0.0/0 5,                                 // no route
  FILE $TABLE
);

if0 :: Interface(DEV $DEV0, IP $IP0, NET $NET0, MAC $MAC0, MTU $MTU0, COLOR 1) -> routes;
if1 :: Interface(DEV $DEV1, IP $IP1, NET $NET1, MAC $MAC1, MTU $MTU1, COLOR 2) -> routes;
if2 :: Interface(DEV $DEV2, IP $IP2, NET $NET2, MAC $MAC2, MTU $MTU2, COLOR 3) -> routes;
if3 :: Interface(DEV $DEV3, IP $IP3, NET $NET3, MAC $MAC3, MTU $MTU3, COLOR 4) -> routes;

routes[0] -> if0;
routes[1] -> if1;
routes[2] -> if2;
routes[3] -> if3;

routes[4] -> local :: IPClassifier(icmp type echo, icmp or tcp, udp, -);
local[0] -> ICMPPingResponder -> routes;
local[1] -> Discard;
local[2] -> no_port :: ICMPError($IP0, unreachable, port) -> routes;
local[3] -> no_protocol :: ICMPError($IP0, unreachable, protocol) -> routes;

routes[5] -> no_route :: ICMPError($IP0, unreachable, net) -> routes;
