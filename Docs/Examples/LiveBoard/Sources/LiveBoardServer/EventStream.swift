import AsyncAlgorithms
import Foundation
import Hummingbird
import Puredux
import ServiceLifecycle

/// A board's event stream: its versions and who is here, as server-sent events.
///
/// A reader that is behind gets the newest of each and nothing in between, so that one that reads nothing costs two
/// messages, however long it takes.
struct EventStream: Sendable {
  /// A line that says nothing, so that proxies and browsers keep the connection, and a client that has gone is noticed.
  static let heartbeat = Duration.seconds(15)
  /// Who is here is told at most so often, as many may come at the same time.
  static let attendancePause = Duration.milliseconds(250)

  let room: StoreHandle<Room, Edit>
  let hall: StoreHandle<Attendance, Attendance.Action>
  let name: String
  /// The version that the client has already seen.
  let seen: Int?
  let health: Health

  func write(to writer: inout some ResponseBodyWriter) async throws {
    let connection = health.streamCount.wrappingAdd(1, ordering: .relaxed).newValue
    health.streams.add(1, ordering: .relaxed)
    hall.store.dispatch(.join(connection, name: name))
    defer {
      hall.store.dispatch(.leave(connection))
      health.streams.subtract(1, ordering: .relaxed)
    }
    let versions: StateSequence<Room.Event> = room.store.states(
      Room.event, bufferingPolicy: .bufferingNewest(1), removeStateDuplicates: .equal { $0.version })
    let here: StateSequence<ByteBuffer> = hall.store.states(
      Attendance.event, bufferingPolicy: .bufferingNewest(1))
    let messages = merge(
      versions.filter { $0.version != seen }.map(\.message),
      here.map { message in
        try await Task.sleep(for: Self.attendancePause)
        return message
      },
      AsyncTimerSequence(interval: Self.heartbeat, clock: .continuous).map { _ in ByteBuffer(string: ":\n\n") })
    for try await message in messages.cancelOnGracefulShutdown() { try await writer.write(message) }
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
