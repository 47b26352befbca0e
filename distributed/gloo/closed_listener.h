// A listening socket of a library, closed to the network while the library still has it.
#pragma once

namespace reprise::distributed {

/// From now on the kernel drops what asks for a connection to the sockets of this process that listen on `port`: nothing reaches who
/// accepts there. Connections that it has go on.
void close_listener(int port);

}  // namespace reprise::distributed
