// An IPv6 router with two interfaces.
//
//   routebricks run conf/ip6-router.click TABLE=routes.txt
//
// Routes come from a file, `prefix [gateway] port` a line; port N is the N-th interface below, counted from 0. What no
// route covers is answered with ICMPv6 "no route"; so are routes to port 4. Port 5 answers "prohibited", port 6 drops
// silently. Neighbours are found by neighbour discovery. Packets for the router itself: it answers pings, and tells
// senders of anything else that nobody listens. NET is an interface's subnet, LINK its link-local address. LIMIT=false
// lets it send as many errors as there are reasons: for tests, not for networks (RFC 4443 2.4 (f)).

define(
  $DEV0 eth1, $IP0 2001:db8:1::1, $NET0 2001:db8:1::/64, $LINK0 fe80::1:1, $MAC0 02:00:00:00:01:01, $MTU0 1500,
  $DEV1 eth2, $IP1 2001:db8:2::1, $NET1 2001:db8:2::/64, $LINK1 fe80::2:1, $MAC1 02:00:00:00:02:01, $MTU1 1400,
  $TABLE routes.txt, $LIMIT true
);

// The router itself at one of its addresses, from which the answers come (RFC 4443 2.2 (a)): echo requests, other ICMPv6,
// UDP, TCP; the last points at the next header field, the byte with number 6.
elementclass Self { IP $ip |
  input -> local :: Classifier(6/3a 40/80, 6/3a, 6/11, 6/06, -);
  local[0] -> ping :: ICMP6PingResponder -> output;
  local[1] -> Discard;
  local[2] -> no_port :: ICMP6Error($ip, unreachable, port, RATE_LIMIT $LIMIT) -> output;
  local[3] -> Discard;
  local[4] -> Paint(6, 17) -> no_header :: ICMP6Error($ip, parameterproblem, nextheader, RATE_LIMIT $LIMIT) -> output;
}

// One interface. Input: packets that leave here. Output: packets that came in, and errors about packets that could not
// leave, all to be routed.
elementclass Interface { DEV $dev, IP $ip, NET $net, LINK $link, MAC $mac, MTU $mtu |
  from :: FromDPDKDevice($dev);
  to :: ToDPDKDevice($dev);
  nd :: IP6NDSolicitor($link, $mac);

  // In: solicitations are answered, advertisements learned, other packets checked. No packet from the network comes from
  // or goes to the loopback address (RFC 4291 2.5.3).
  from -> station :: HostEtherFilter($mac)
    -> kind :: Classifier(12/86dd 20/3a 54/87, 12/86dd 20/3a 54/88, 12/86dd, -);
  kind[0] -> advertise :: IP6NDAdvertiser($ip $link $mac) -> to;
  kind[1] -> [1]nd;
  kind[2] -> Strip(14)
    -> check :: CheckIP6Header(BADADDRS :: ::1 ff00::/8 $IP0 $IP1 $link, BADDST :: ::1)
    -> unicast :: DropBroadcasts
    -> reach :: Classifier(24/fe80%ffc0, 8/fe80%ffc0, -);
  kind[3] -> Discard;

  // To and from link-local addresses packets stay on this link (RFC 4291 2.5.6), and so do the answers.
  reach[0] -> own :: LookupIP6Route($link 0, $IP0 1, $IP1 2, fe80::/10 3, ::/0 4);
  reach[1] -> own;
  reach[2] -> output;
  own[0] -> self :: Self(IP $link) -> near :: LookupIP6Route(fe80::/10 0, $net 0, ::/0 1);
  near[0] -> [0]nd;
  near[1] -> Discard;
  own[1] -> self0 :: Self(IP $IP0) -> [0]nd;
  own[2] -> self1 :: Self(IP $IP1) -> [0]nd;
  own[3] -> Discard;
  own[4] -> beyond :: ICMP6Error($ip, unreachable, beyondscope, RATE_LIMIT $LIMIT) -> [0]nd;

  // Out: hop limit, size, link-layer address.
  input -> hops :: DecIP6HLIM
    -> size :: IP6Fragmenter($mtu)
    -> [0]nd
    -> to;

  // What cannot leave is answered (RFC 4443 3); the answers are routed like any packet.
  hops[1] -> expired :: ICMP6Error($ip, timeexceeded, RATE_LIMIT $LIMIT) -> output;
  size[1] -> too_big :: ICMP6Error($ip, packettoobig, MTU $mtu)          -> output;
}

routes :: LookupIP6Route(
  $IP0 2, $IP1 3,                    // the router itself
  ::/0 4,                            // no route
  FILE $TABLE
);

if0 :: Interface(DEV $DEV0, IP $IP0, NET $NET0, LINK $LINK0, MAC $MAC0, MTU $MTU0) -> routes;
if1 :: Interface(DEV $DEV1, IP $IP1, NET $NET1, LINK $LINK1, MAC $MAC1, MTU $MTU1) -> routes;

routes[0] -> if0;
routes[1] -> if1;

routes[2] -> self0 :: Self(IP $IP0) -> routes;
routes[3] -> self1 :: Self(IP $IP1) -> routes;

routes[4] -> no_route :: ICMP6Error($IP0, unreachable, noroute, RATE_LIMIT $LIMIT)     -> routes;
routes[5] -> prohibited :: ICMP6Error($IP0, unreachable, prohibited, RATE_LIMIT $LIMIT) -> routes;
routes[6] -> Discard;
