import Foundation
import Hummingbird
import NIOCore
import Puredux
import ServiceLifecycle

/// A board's event stream: its versions and who is here, as server-sent events.
///
/// Who has a version gets what has changed since, in one event for each version, or the whole board where that is too
/// much. A reader that reads nothing costs one state, however long it takes.
struct EventStream: Sendable {
  let hall: StoreHandle<Hall, Hall.Action>
  let name: String
  /// The id of the last event that the client has seen.
  let seen: String?
  let place: StreamPlace

  /// - Parameter loop: The connection's: from there a write is a call, and from elsewhere a task for it.
  func write(to writer: inout some ResponseBodyWriter, on loop: any EventLoop) async throws {
    try await withTaskExecutorPreference(LoopExecutor(loop)) { try await write(to: &writer) }
  }

  private func write(to writer: inout some ResponseBodyWriter) async throws {
    let states: StateSequence<Hall> = hall.store.states(bufferingPolicy: .bufferingNewest(1))
    hall.store.dispatch(.join(place.number, name: name))
    defer { hall.store.dispatch(.leave(place.number)) }
    // A browser tries again after that long, in milliseconds.
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
      // One after the other, as putting them together would copy the board for each stream.
      for message in messages where message.readableBytes > 0 { try await writer.write(message) }
    }
  }
}

/// A place among the event streams that are possible at a time, taken for as long as the object lives.
final class StreamPlace: Sendable {
  /// Another one for each stream.
  let number: Int
  private let health: Health

  /// - Returns: nil where all places are taken.
  init?(among limit: Int, of health: Health) {
    self.health = health
    number = health.streamCount.wrappingAdd(1, ordering: .relaxed).newValue
    // `deinit` runs here, too, and gives the place back.
    if health.streams.wrappingAdd(1, ordering: .relaxed).newValue > limit { return nil }
  }

  deinit { health.streams.subtract(1, ordering: .relaxed) }
}

/// Runs tasks on an event loop.
final class LoopExecutor: TaskExecutor {
  private let loop: any EventLoop

  init(_ loop: any EventLoop) { self.loop = loop }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    loop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}

/// Ends the event streams when the server is asked to terminate: those of a store end with it.
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
    // The encoder breaks no lines, and what it is given here has nothing that it could not encode.
    let data = (try? encoder.encode(value)) ?? Data("null".utf8)
    var buffer = ByteBuffer()
    if let id { buffer.writeString("id: \(id)\n") }
    buffer.writeString("event: \(name)\ndata: ")
    buffer.writeBytes(data)
    buffer.writeString("\n\n")
    return buffer
  }
}
