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
  /// The version that the client has already seen.
  let seen: Int?
  let health: Health

  /// - Parameter loop: The connection's: from there a write is a call, and from elsewhere a task for it.
  func write(to writer: inout some ResponseBodyWriter, on loop: any EventLoop) async throws {
    try await withTaskExecutorPreference(LoopExecutor(loop)) { try await write(to: &writer) }
  }

  private func write(to writer: inout some ResponseBodyWriter) async throws {
    let connection = health.streamCount.wrappingAdd(1, ordering: .relaxed).newValue
    health.streams.add(1, ordering: .relaxed)
    let states: StateSequence<Hall> = hall.store.states(bufferingPolicy: .bufferingNewest(1))
    hall.store.dispatch(.join(connection, name: name))
    defer {
      hall.store.dispatch(.leave(connection))
      health.streams.subtract(1, ordering: .relaxed)
    }
    // A browser tries again after that long, in milliseconds.
    try await writer.write(ByteBuffer(string: "retry: 1000\n\n"))
    var (version, here, beats) = (seen ?? 0, 0, 0)
    for await state in states {
      guard let board = state.board else { continue }
      var messages = [state.news(since: version)]
      if state.here.count != here { messages.append(state.here.message) }
      if state.beats != beats { messages.append(Hall.beat) }
      (version, here, beats) = (board.version, state.here.count, state.beats)
      // One after the other, as putting them together would copy the board for each stream.
      for message in messages where message.readableBytes > 0 { try await writer.write(message) }
    }
  }
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
  static func event(_ name: String, id: Int? = nil, _ value: some Encodable) -> ByteBuffer {
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
