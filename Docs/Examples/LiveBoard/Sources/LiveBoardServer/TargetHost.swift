import NIOCore
import NIOHTTP1

/// The target of a request may be a whole URL, of which Hummingbird drops the host. If that host differs from `Host`,
/// it is added as a second `Host`, so that `Access` refuses the request.
final class TargetHost: ChannelInboundHandler, RemovableChannelHandler {
  typealias InboundIn = Never

  private final class Reader: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      guard case .head(var head) = unwrapInboundIn(data), !head.uri.hasPrefix("/"),
        let host = head.uri.authority, host != head.headers["host"].first
      else { return context.fireChannelRead(data) }
      head.headers.add(name: "host", value: host)
      context.fireChannelRead(wrapInboundOut(.head(head)))
    }
  }

  /// Inserts the reader right after the HTTP decoder, before Hummingbird converts the request.
  func handlerAdded(context: ChannelHandlerContext) {
    do {
      let pipeline = context.pipeline.syncOperations
      let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
      try pipeline.addHandler(Reader(), position: .after(decoder))
    } catch {
      context.close(promise: nil)
    }
  }
}

extension String {
  /// The host and port of a URL.
  var authority: String? {
    firstRange(of: "://").map { String(self[$0.upperBound...].prefix { !"/?#".contains($0) }) }
  }
}
