import NIOCore
import NIOPosix

/// A connection for arbitrary bytes.
struct RawConnection {
  let channel: NIOAsyncChannel<ByteBuffer, ByteBuffer>

  init(port: Int) async throws {
    channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
      .connect(host: "127.0.0.1", port: port) { channel in
        channel.eventLoop.makeCompletedFuture { try NIOAsyncChannel(wrappingChannelSynchronously: channel) }
      }
  }

  /// Sends a text. Closes the connection after the first part of the response, or when the server closes it.
  func ask(_ text: String) async throws -> String {
    try await channel.executeThenClose { inbound, outbound in
      if !text.isEmpty { try await outbound.write(ByteBuffer(string: text)) }
      for try await part in inbound { return String(buffer: part) }
      return ""
    }
  }
}
