import HTTPTypes
public import Hummingbird
import Puredux
import ServiceLifecycle
import Synchronization

extension Inspector {
  /// Has a server show what is kept, at a path and below it, to whoever has the token.
  ///
  /// A browser opens `/inspect?token=…` once, and has a cookie from then on; other clients send
  /// `Authorization: Bearer`, and may read `/inspect/data/stores` and `/inspect/data/stores/1`, which are JSON.
  /// Everything is a `GET` and changes nothing. Pages that are open end with the server (`ServiceGroup`, `runService`),
  /// and when their client goes, which takes the request's body: the router may have no middleware that replaces it.
  ///
  /// - Parameters:
  ///   - path: Without parameters. By another path, or on another router, the pages can be mounted again.
  ///   - token: A secret that cannot be guessed: from the environment, not from the source. If it is empty, nobody is
  ///     let in. It travels with each request: the server has to be reached by TLS, or on loopback.
  public func mount<Context: RequestContext>(
    on router: Router<Context>, at path: String = "/inspect", token: String
  ) {
    let root = "/" + path.split(separator: "/").joined(separator: "/")
    let pages = InspectorPage(root: root == "/" ? "" : root)
    let group = router.group(RouterPath(root)).add(middleware: InspectorAccess(root: root, token: token))
    group.get("") { _, _ in pages.stores }
    group.get("stores/:number") { _, context in
      pages.store(try context.parameters.require("number", as: Int.self))
    }
    group.get("inspector.css") { _, _ in InspectorPage.style }
    group.get("inspector.js") { _, _ in InspectorPage.script }
    group.get("data/stores") { _, _ in
      Response.json([
        "stores": Answer.encoded(await self.storesAnswer()), "directories": Answer.encoded(self.directoriesAnswer),
      ])
    }
    group.get("data/stores/:number") { _, context in
      let number = try context.parameters.require("number", as: Int.self)
      guard let parts = await self.storeAnswer(number) else { return Response.unknown }
      return .json(Dictionary(uniqueKeysWithValues: parts.map { ($0.name, $0.data) }))
    }
    group.get("data/stores/:number/states/:shown/commits/:position") { _, context in
      let commit = self.pastAnswer(
        try context.parameters.require("number", as: Int.self),
        shown: try context.parameters.require("shown", as: Int.self),
        position: try context.parameters.require("position", as: Int.self))
      guard let commit else { return Response.unknown }
      return .json(Answer.encoded(commit))
    }
    group.get("events") { request, _ in
      self.events(for: request) {
        [
          ("stores", Answer.encoded(await self.storesAnswer())),
          ("directories", Answer.encoded(self.directoriesAnswer)),
        ]
      }
    }
    group.get("events/:number") { request, context in
      let number = try context.parameters.require("number", as: Int.self)
      return self.events(for: request) { await self.storeAnswer(number) }
    }
  }

  /// A stream of server-sent events: each part of a page, and again whenever it has changed.
  ///
  /// - Parameter parts: Nil if there is nothing to show any more, and never will be.
  private func events(
    for request: Request, _ parts: @escaping @Sendable () async -> [(name: String, data: ByteBuffer)]?
  ) -> Response {
    guard let place = StreamPlace(among: limits.streams, counted: streams) else {
      return .text(.serviceUnavailable, "Too many pages are open.\n")
    }
    let interval = max(limits.interval, .milliseconds(10))
    let body = ResponseBody { writer in
      // Without this call the stream of a client that has gone would go on until the next write fails.
      try await request.body.consumeWithCancellationOnInboundClose { _ in
        try await writer.write(ByteBuffer(string: "retry: 1000\n\n"))
        var sent: [String: ByteBuffer] = [:]
        for await _ in Ticks(interval: interval).cancelOnGracefulShutdown() {
          guard let parts = await parts() else {
            return try await writer.write(.event("gone", ByteBuffer(string: "true")))
          }
          var message = ByteBuffer()
          for (name, data) in parts where sent[name] != data {
            message.writeImmutableBuffer(.event(name, data))
            sent[name] = data
          }
          // The server's time, by which the page tells how long ago something was; and that the connection is alive.
          message.writeImmutableBuffer(
            .event("beat", ByteBuffer(string: "[\(WallTime.now.milliseconds),\(interval / .milliseconds(1))]")))
          try await writer.write(message)
        }
      }
      withExtendedLifetime(place) {}
      try await writer.finish(nil)
    }
    return Response(status: .ok, headers: [.contentType: "text/event-stream"], body: body)
  }
}

/// An element at once, and one after each interval.
private struct Ticks: AsyncSequence, Sendable {
  let interval: Duration

  struct Iterator: AsyncIteratorProtocol {
    let interval: Duration
    private var isFirst = true

    init(interval: Duration) { self.interval = interval }

    mutating func next() async -> Void? {
      if isFirst { return isFirst = false }
      do { try await Task.sleep(for: interval) } catch { return nil }
      return ()
    }
  }

  func makeAsyncIterator() -> Iterator { Iterator(interval: interval) }
}

/// A place among the pages that may be open at a time, taken for as long as the object lives.
private final class StreamPlace: Sendable {
  private let counter: Counter

  /// - Returns: nil where all places are taken.
  init?(among limit: Int, counted counter: Counter) {
    self.counter = counter
    // `deinit` runs here, too, and gives the place back.
    if counter.count.wrappingAdd(1, ordering: .relaxed).newValue > limit { return nil }
  }

  deinit { counter.count.subtract(1, ordering: .relaxed) }
}

/// How many pages are open.
final class Counter: Sendable {
  let count = Atomic(0)
}

extension Response {
  fileprivate static var unknown: Response { .text(.notFound, "There is no such store or commit any more.\n") }

  fileprivate static func json(_ body: ByteBuffer) -> Response {
    Response(
      status: .ok, headers: [.contentType: "application/json; charset=utf-8"], body: ResponseBody(byteBuffer: body))
  }

  /// An object of values that are encoded already.
  fileprivate static func json(_ parts: [String: ByteBuffer]) -> Response {
    var body = ByteBuffer(string: "{")
    for (index, (name, value)) in parts.sorted(by: { $0.key < $1.key }).enumerated() {
      body.writeString("\(index > 0 ? "," : "")\"\(name)\":")
      body.writeImmutableBuffer(value)
    }
    body.writeString("}")
    return json(body)
  }
}

extension ByteBuffer {
  /// A server-sent event; its data has no line breaks.
  fileprivate static func event(_ name: String, _ data: ByteBuffer) -> ByteBuffer {
    var buffer = ByteBuffer(string: "event: \(name)\ndata: ")
    buffer.writeImmutableBuffer(data)
    buffer.writeString("\n\n")
    return buffer
  }
}
