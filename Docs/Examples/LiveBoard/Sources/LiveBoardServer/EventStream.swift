import Foundation
import Hummingbird
import NIOCore
import Puredux
import PureduxDirectory
import ServiceLifecycle

/// A board's event stream: versions and presence, as server-sent events.
///
/// A client with an earlier version receives one event for each later change, or the whole board if there are too many.
/// A stalled client costs one state, for any length of time.
struct EventStream: Sendable {
  let hall: StoreHandle<Hall, Hall.Action>
  let name: String
  /// The id of the last event that the client received.
  let seen: String?
  let place: StreamPlace

  /// - Parameter loop: The connection's event loop: a write from there is a plain call, a write from elsewhere costs a
  ///   task.
  func write(to writer: inout some ResponseBodyWriter, on loop: any EventLoop) async throws {
    try await withTaskExecutorPreference(LoopExecutor(loop)) { try await write(to: &writer) }
  }

  private func write(to writer: inout some ResponseBodyWriter) async throws {
    let states: StateSequence<Hall> = hall.store.states(bufferingPolicy: .bufferingNewest(1))
    hall.store.dispatch(.join(place.number, name: name))
    defer { hall.store.dispatch(.leave(place.number)) }
    // The browser's reconnection delay, in milliseconds.
    try await writer.write(ByteBuffer(string: "retry: 1000\n\n"))
    var (version, here, beats) = (nil as Int?, 0, 0)
    for await state in states {
      if state.isDeleted { return try await writer.write(.event("deleted", true)) }
      guard let board = state.board else { continue }
      let known = version ?? seen.flatMap { state.version(ofEvent: $0) } ?? 0
      var messages = [state.news(since: known)]
      if state.here.count != here { messages.append(state.here.message) }
      if state.beats != beats { messages.append(Hall.beat) }
      (version, here, beats) = (board.version, state.here.count, state.beats)
      // Separate writes, because joining the messages would copy the board for each stream.
      for message in messages where message.readableBytes > 0 { try await writer.write(message) }
    }
  }
}

/// One of the limited number of event streams, held for the lifetime of the object.
final class StreamPlace: Sendable {
  /// Unique for each stream.
  let number: Int
  private let health: Health

  /// - Returns: nil if all places are taken.
  init?(among limit: Int, of health: Health) {
    self.health = health
    number = health.streamCount.wrappingAdd(1, ordering: .relaxed).newValue
    // `deinit` runs here as well and returns the place.
    if health.streams.wrappingAdd(1, ordering: .relaxed).newValue > limit { return nil }
  }

  deinit { health.streams.subtract(1, ordering: .relaxed) }
}

final class LoopExecutor: TaskExecutor {
  private let loop: any EventLoop

  init(_ loop: any EventLoop) { self.loop = loop }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}

/// Ends the event streams on graceful shutdown: they end with their stores.
struct EndsStreams: Service {
  let boards: Boards

  func run() async throws {
    try? await gracefulShutdown()
    await boards.halls.shutdown()
  }
}

extension ByteBuffer {
  /// A server-sent event whose data is a value as JSON.
  static func event(_ name: String, id: String? = nil, _ value: some Encodable) -> ByteBuffer {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    // The encoder adds no line breaks, and all values can be encoded.
    let data = (try? encoder.encode(value)) ?? Data("null".utf8)
    var buffer = ByteBuffer()
    if let id { buffer.writeString("id: \(id)\n") }
    buffer.writeString("event: \(name)\ndata: ")
    buffer.writeBytes(data)
    buffer.writeString("\n\n")
    return buffer
  }
}
