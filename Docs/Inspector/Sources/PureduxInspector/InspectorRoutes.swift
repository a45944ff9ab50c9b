import HTTPTypes
public import Hummingbird
import Puredux
import ServiceLifecycle
import Synchronization

extension Inspector {
  /// Adds the pages to a router, for visitors with the token.
  ///
  /// A browser opens `/inspect?token=…` once and then has a cookie. Other clients send `Authorization: Bearer` and can
  /// read `/inspect/data/stores` and `/inspect/data/stores/1` as JSON. All requests are `GET` and change nothing. Open
  /// pages end on graceful shutdown of the server (`ServiceGroup`, `runService`) and when their client disconnects. A
  /// client that does not read blocks a write: limit the shutdown by the group's `maximumGracefulShutdownDuration`. The
  /// detection of disconnects reads the request's body, so the router must have no middleware that replaces the body.
  ///
  /// - Parameters:
  ///   - path: A path without parameters. The pages can be mounted several times, at other paths or on other routers.
  ///   - token: An unguessable secret, from the environment and not from the source. If it is empty, every request is
  ///     refused. It is sent with each request, so use TLS, or listen on loopback.
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

  /// A stream of server-sent events: each part of a page, repeated whenever it changes.
  ///
  /// - Parameter parts: Returns nil if the page's subject is gone for good.
  private func events(
    for request: Request, _ parts: @escaping @Sendable () async -> [(name: String, data: ByteBuffer)]?
  ) -> Response {
    guard let place = StreamPlace(among: limits.streams, counted: streams) else {
      return .text(.serviceUnavailable, "Too many pages are open.\n")
    }
    let interval = max(limits.interval, .milliseconds(10))
    let body = ResponseBody { writer in
      // Without this call, the stream of a disconnected client would stay open until the next write fails.
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
          // A heartbeat with the server's time, from which the page computes ages.
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

/// Yields an element immediately, and one after each interval.
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

/// One of the limited number of open pages, held for the lifetime of the object.
private final class StreamPlace: Sendable {
  private let counter: Counter

  /// - Returns: nil if all places are taken.
  init?(among limit: Int, counted counter: Counter) {
    self.counter = counter
    // `deinit` runs here as well and returns the place.
    if counter.count.wrappingAdd(1, ordering: .relaxed).newValue > limit { return nil }
  }

  deinit { counter.count.subtract(1, ordering: .relaxed) }
}

final class Counter: Sendable {
  let count = Atomic(0)
}

extension Response {
  fileprivate static var unknown: Response { .text(.notFound, "There is no such store or commit.\n") }

  fileprivate static func json(_ body: ByteBuffer) -> Response {
    Response(
      status: .ok, headers: [.contentType: "application/json; charset=utf-8"], body: ResponseBody(byteBuffer: body))
  }

  /// An object of encoded values.
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
  /// A server-sent event. The data must have no line breaks.
  fileprivate static func event(_ name: String, _ data: ByteBuffer) -> ByteBuffer {
    var buffer = ByteBuffer(string: "event: \(name)\ndata: ")
    buffer.writeImmutableBuffer(data)
    buffer.writeString("\n\n")
    return buffer
  }
}
