// An IPv4 router with three interfaces, after the classic Click router.
//
//   routebricks run conf/ip-router.click TABLE=routes.txt
//
// Routes come from a file, `prefix [gateway] port` a line; port N is the N-th interface below, counted from 0. What
// no route covers is answered with ICMP "net unreachable". Packets for the router itself: it answers pings, and tells
// senders of UDP that nobody listens.

define(
  $DEV0 eth1, $IP0 10.0.1.1, $MAC0 02:00:00:00:01:01, $MTU0 1500,
  $DEV1 eth2, $IP1 10.0.2.1, $MAC1 02:00:00:00:02:01, $MTU1 1500,
  $DEV2 eth3, $IP2 10.0.3.1, $MAC2 02:00:00:00:03:01, $MTU2 1400,
  $TABLE routes.txt
);

// One interface. Input: packets that leave here. Output: packets that came in, and errors about packets that could not
// leave, all to be routed.
elementclass Interface { DEV $dev, IP $ip, MAC $mac, MTU $mtu, COLOR $color |
  from :: FromDPDKDevice($dev);
  to :: ToDPDKDevice($dev);
  arpq :: ARPQuerier($ip, $mac);

  // In: ARP queries are answered, ARP replies learned, IP packets checked (RFC 1812 5.2.2, 5.3.7).
  from -> HostEtherFilter($mac)
    -> kind :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  kind[0] -> ARPResponder($ip $mac) -> to;
  kind[1] -> [1]arpq;
  kind[2] -> Strip(14)
    -> CheckIPHeader(BADSRC 0.0.0.0/8 127.0.0.0/8 224.0.0.0/4 240.0.0.0/4)
    -> Paint($color)
    -> output;
  kind[3] -> Discard;

  // Out: options, TTL, size, link-layer address.
  input -> DropBroadcasts
    -> back :: PaintTee($color)
    -> options :: IPGWOptions($ip)
    -> FixIPSrc($ip)
    -> ttl :: DecIPTTL
    -> fragment :: IPFragmenter($mtu)
    -> [0]arpq
    -> to;

  // What cannot leave is answered (RFC 1812 4.3); the answers are routed like any packet.
  back[1]     -> ICMPError($ip, redirect, host)                   -> output;
  options[1]  -> ICMPError($ip, parameterproblem)                 -> output;
  ttl[1]      -> ICMPError($ip, timeexceeded)                     -> output;
  fragment[1] -> ICMPError($ip, unreachable, needfrag, MTU $mtu)  -> output;
}

routes :: DirectIPLookup(
  $IP0/32 3, $IP1/32 3, $IP2/32 3,  // the router itself
  0.0.0.0/0 4,                      // no route
  FILE $TABLE
);

if0 :: Interface(DEV $DEV0, IP $IP0, MAC $MAC0, MTU $MTU0, COLOR 1) -> routes;
if1 :: Interface(DEV $DEV1, IP $IP1, MAC $MAC1, MTU $MTU1, COLOR 2) -> routes;
if2 :: Interface(DEV $DEV2, IP $IP2, MAC $MAC2, MTU $MTU2, COLOR 3) -> routes;

routes[0] -> if0;
routes[1] -> if1;
routes[2] -> if2;

routes[3] -> local :: IPClassifier(icmp type echo, udp, -);
local[0] -> ICMPPingResponder -> routes;
local[1] -> ICMPError($IP0, unreachable, port) -> routes;
local[2] -> Discard;

routes[4] -> ICMPError($IP0, unreachable, net) -> routes;
