// Frames of one flow, as fast as the device takes them: to another process, which runs ring-receive.click.
//
//   routebricks run conf/bench/ring-send.click DEVICE=ring:/run/routebricks/bench LENGTH=64

define($DEVICE ring:/run/routebricks/bench, $LENGTH 64);

FastUDPSource(0, -1, $LENGTH, 02:00:00:00:00:01, 198.18.0.1, 1000, 02:00:00:00:00:02, 198.18.0.2, 9)
  -> Unqueue
  -> ToDPDKDevice($DEVICE, BLOCKING true);
