#if NATS
  #if canImport(FoundationEssentials)
    import FoundationEssentials
  #else
    import Foundation
  #endif
  import Puredux
  import PureduxLog

  /// The subset of JetStream's JSON API that the log needs. libnats' own functions block, and need a thread per
  /// subscription.
  final class JetStream: Sendable {
    let connection: Connection
    let stream: String
    private let answerLimit: Duration
    private let streams = LockedValue(Streams())

    private struct Streams: Sendable {
      var prefix = ""
      var entryLimit = Int.max
      var valueLimit = Int.max
    }

    init(_ connection: Connection, stream: String, answerLimit: Duration) {
      self.connection = connection
      self.stream = stream
      self.answerLimit = answerLimit
    }

    func found(_ entries: StreamInfo, _ snapshots: StreamInfo) {
      func limit(_ info: StreamInfo) -> Int { info.config.maxMsgSize.flatMap { $0 > 0 ? Int($0) : nil } ?? .max }
      streams.withLock { streams in
        streams.prefix = entries.config.prefix ?? stream + "."
        streams.entryLimit = limit(entries)
        streams.valueLimit = limit(snapshots)
      }
    }

    /// The least `max_payload` with which a log is opened.
    static let leastMessageLimit = 4096

    /// Size limits of an entry and of a snapshot's part, without headers. A server with a lower limit than
    /// `leastMessageLimit`, found after a lost connection, refuses the message itself.
    var entryLimit: Int { limit(streams.withLock { $0.entryLimit }) }
    var valueLimit: Int { limit(streams.withLock { $0.valueLimit }) }

    private func limit(_ ofStream: Int) -> Int {
      max(min(connection.messageLimit, ofStream), Self.leastMessageLimit) - 1024
    }

    /// Differs between streams of the same name.
    var prefix: String { streams.withLock { $0.prefix } }

    func checkIdentity() async throws(LogError) {
      guard try await info(of: stream).config.prefix != prefix else { return }
      throw .damaged(position: 1, "The stream \(stream) was replaced by another one of the same name.")
    }

    var bucketStream: String { "KV_\(stream)-snapshots" }
    func bucketSubject(_ key: String) -> String { "$KV.\(stream)-snapshots.\(key)" }

    // MARK: Requests

    private static var encoder: JSONEncoder {
      let encoder = JSONEncoder()
      encoder.keyEncodingStrategy = .convertToSnakeCase
      return encoder
    }

    private static var decoder: JSONDecoder {
      let decoder = JSONDecoder()
      decoder.keyDecodingStrategy = .convertFromSnakeCase
      return decoder
    }

    struct Failure: Decodable, Sendable {
      var code: Int
      var errCode: Int?
      var description: String?

      static let noMessage = 10037
      static let messageTooLarge = 10054
      static let noStream = 10059
      static let nameInUse = 10058
      /// Another client has written to the key, or is writing.
      static let wrongLastSequence: Set = [10071, 10164]

      var error: LogError {
        let text = "\(description ?? "the server refused it") (\(errCode ?? code))"
        switch errCode {
        // No room in the stream, in the account or on the server.
        case 10077 where text.contains("maximum"), 10122, 10047, 10023, 10028, 10002: return .full(text)
        // Invalid messages and configurations; several replicas on a single server.
        case 10054, 10052, 10074: return .refused(text)
        // Not all servers are available yet.
        case 10005: return .unavailable(text)
        default: return code == 400 || code == 403 ? .refused(text) : .unavailable(text)
        }
      }
    }

    private struct Envelope: Decodable { var error: Failure? }

    enum Answer<Value: Sendable>: Sendable {
      case value(Value)
      case failure(Failure)

      func get() throws(LogError) -> Value {
        switch self {
        case .value(let value): return value
        case .failure(let failure): throw failure.error
        }
      }
    }

    /// Ends with an answer or at the time limit, never by cancellation.
    private func answer(
      _ subject: String, _ bytes: [UInt8], header: (name: String, value: String)? = nil
    ) async throws(LogError) -> [UInt8] {
      let result: Result<Inbox.Message, LogError> = await withCheckedContinuation { continuation in
        connection.request(subject, bytes, header: header, limit: answerLimit) { continuation.resume(returning: $0) }
      }
      let message = try result.get()
      if case .status(let status, _, _) = message.kind {
        throw .unavailable("Nobody answers for the stream \(stream) (\(status)).")
      }
      return message.bytes
    }

    func request<Value: Decodable & Sendable>(
      _ subject: String, _ body: some Encodable, for type: Value.Type = Value.self
    ) async throws(LogError) -> Answer<Value> {
      try decode(try await answer("$JS.API." + subject, encode(body)))
    }

    /// Appends a message, and returns its position.
    ///
    /// - Parameter revision: The required position of the subject's last message; 0 for none.
    func put(_ subject: String, _ bytes: [UInt8], revision: UInt64? = nil) async throws(LogError) -> Answer<UInt64> {
      let header = revision.map { (name: "Nats-Expected-Last-Subject-Sequence", value: String($0)) }
      let answer: Answer<PublishAnswer> = try decode(try await answer(subject, bytes, header: header))
      switch answer {
      case .value(let value): return .value(value.seq)
      case .failure(let failure): return .failure(failure)
      }
    }

    /// Does not decode the whole answer.
    static func position(in answer: Inbox.Message) -> Result<UInt64, LogError> {
      if case .status(let status, _, _) = answer.kind {
        return .failure(.unavailable("Nobody answers for the stream (\(status))."))
      }
      if let position = Subjects.number(behind: "\"seq\":", in: answer.bytes, unless: "\"error\":") {
        return .success(position)
      }
      guard let failure = try? Self.decoder.decode(Envelope.self, from: Data(answer.bytes)).error else {
        return .failure(.unavailable("The answer cannot be read."))
      }
      // Only the size is refused for good: a sealed stream or a missing permission may change.
      if case .refused(let text) = failure.error, failure.errCode != Failure.messageTooLarge {
        return .failure(.unavailable(text))
      }
      return .failure(failure.error)
    }

    private struct PublishAnswer: Decodable { var seq: UInt64 }

    private func encode(_ body: some Encodable) throws(LogError) -> [UInt8] {
      do {
        return Array(try Self.encoder.encode(body))
      } catch {
        throw .refused("\(error)")
      }
    }

    private func decode<Value: Decodable>(_ bytes: [UInt8]) throws(LogError) -> Answer<Value> {
      let data = Data(bytes)
      do {
        if let failure = try Self.decoder.decode(Envelope.self, from: data).error { return .failure(failure) }
        return .value(try Self.decoder.decode(Value.self, from: data))
      } catch {
        throw .unavailable("The answer cannot be read: \(error)")
      }
    }

    // MARK: Streams

    struct Empty: Codable, Sendable {}

    struct StreamConfiguration: Codable, Sendable {
      var name: String
      var subjects: [String]?
      var retention = "limits"
      var maxConsumers: Int? = -1
      var maxMsgs: Int64? = -1
      var maxBytes: Int64? = -1
      var maxAge: Int64? = 0
      var maxMsgsPerSubject: Int64? = -1
      var maxMsgSize: Int64? = -1
      var discard: String? = "new"
      var storage: String? = "file"
      var numReplicas: Int? = 3
      var duplicateWindow: Int64? = 120_000_000_000
      var denyDelete: Bool? = true
      var allowRollupHdrs: Bool? = false
      var allowDirect: Bool? = false
      var noAck: Bool?
      var sealed: Bool?
      var denyPurge: Bool?
      var mirror: Empty?
      var sources: [Empty]?
      var subjectTransform: Empty?

      static func entries(of stream: String, replicas: Int) -> StreamConfiguration {
        // Keeps out late messages to an earlier stream of the same name. A backup retains it.
        let identity = String(UInt64.random(in: .min ... .max), radix: 36)
        return StreamConfiguration(
          name: stream, subjects: ["\(stream).\(identity).*"], numReplicas: replicas)
      }

      static func snapshots(of stream: String, replicas: Int) -> StreamConfiguration {
        StreamConfiguration(
          name: "KV_\(stream)-snapshots", subjects: ["$KV.\(stream)-snapshots.>"], maxMsgsPerSubject: 1,
          numReplicas: replicas, allowRollupHdrs: true, allowDirect: true)
      }

      var prefix: String? {
        subjects?.first { $0.hasPrefix(name + ".") && $0.hasSuffix(".*") || $0.hasPrefix("$KV.") }
          .map { String($0.dropLast()) }
      }

      func objection(to other: StreamConfiguration) -> String? {
        if other.retention != "limits" { return "its retention is \(other.retention)" }
        if other.storage != "file" { return "it is kept in memory" }
        if let mine = numReplicas, other.numReplicas ?? 1 < mine {
          return "it has \(other.numReplicas ?? 1) replicas and not \(mine)"
        }
        if other.denyPurge == true { return "nothing can be removed from it" }
        if other.mirror != nil || other.sources != nil || other.subjectTransform != nil {
          return "its messages come from other streams, or under other subjects"
        }
        if other.noAck == true { return "it acknowledges nothing" }
        if other.sealed == true { return "it is sealed" }
        if let limit = other.maxMsgSize, limit > 0, limit < 4096 { return "it takes messages of \(limit) bytes only" }
        if other.maxAge ?? 0 != 0 { return "it removes messages older than max_age" }
        if other.maxMsgsPerSubject ?? -1 != maxMsgsPerSubject ?? -1 {
          return "max_msgs_per_subject is \(other.maxMsgsPerSubject ?? -1)"
        }
        let isBounded = other.maxMsgs ?? -1 > 0 || other.maxBytes ?? -1 > 0
        if isBounded, other.discard != "new" { return "it removes old messages when it is full" }
        if other.prefix == nil { return "it has no subjects of the form \(name).*" }
        return nil
      }
    }

    struct StreamInfo: Decodable, Sendable {
      var config: StreamConfiguration
    }

    func info(of stream: String) async throws(LogError) -> StreamInfo {
      try await request("STREAM.INFO.\(stream)", Empty(), for: StreamInfo.self).get()
    }

    @discardableResult func ensure(
      _ configuration: StreamConfiguration, making: Bool = true
    ) async throws(LogError) -> StreamInfo {
      let name = configuration.name
      var info = try await request("STREAM.INFO.\(name)", Empty(), for: StreamInfo.self)
      if case .failure(let failure) = info, failure.errCode == Failure.noStream {
        if !making { throw .refused("There is no stream \(name).") }
        info = try await request("STREAM.CREATE.\(name)", configuration, for: StreamInfo.self)
        if case .failure(let failure) = info, failure.errCode == Failure.nameInUse {
          info = try await request("STREAM.INFO.\(name)", Empty(), for: StreamInfo.self)
        }
      }
      let made = try info.get()
      if let objection = configuration.objection(to: made.config) {
        throw .refused("The stream \(name) cannot be used: \(objection).")
      }
      return made
    }

    // MARK: Messages

    struct StoredMessage: Decodable, Sendable {
      var seq: UInt64
      var data: Data?
    }

    private struct MessageAnswer: Decodable, Sendable { var message: StoredMessage }

    private struct MessageRequest: Encodable {
      var lastBySubj: String?
      var seq: UInt64?
      var nextBySubj: String?
    }

    /// According to the stream's leader.
    func last(of subject: String, in stream: String) async throws(LogError) -> StoredMessage? {
      try await message(MessageRequest(lastBySubj: subject), in: stream)
    }

    func first(of subject: String, from position: UInt64, in stream: String) async throws(LogError) -> StoredMessage? {
      try await message(MessageRequest(seq: position, nextBySubj: subject), in: stream)
    }

    private func message(_ body: MessageRequest, in stream: String) async throws(LogError) -> StoredMessage? {
      let answer = try await request("STREAM.MSG.GET.\(stream)", body, for: MessageAnswer.self)
      if case .failure(let failure) = answer, failure.errCode == Failure.noMessage { return nil }
      return try answer.get().message
    }

    private struct Purge: Encodable {
      var filter: String
      var seq: UInt64?
    }

    func purge(_ subject: String, before position: UInt64? = nil, in stream: String) async throws(LogError) {
      _ = try await request(
        "STREAM.PURGE.\(stream)", Purge(filter: subject, seq: position), for: Empty.self
      ).get()
    }

    private struct SubjectsRequest: Encodable {
      var subjectsFilter: String
      var offset: Int
    }
    private struct SubjectsInfo: Decodable, Sendable {
      struct State: Decodable, Sendable {
        var subjects: [String: Int]?
        var lastSeq: UInt64
      }
      var state: State
      /// Nil from servers that do not page.
      var total: Int?
    }

    private func info(
      of pattern: String, from offset: Int = 0, in stream: String
    ) async throws(LogError) -> SubjectsInfo {
      try await request(
        "STREAM.INFO.\(stream)", SubjectsRequest(subjectsFilter: pattern, offset: offset), for: SubjectsInfo.self
      ).get()
    }

    private func state(of pattern: String, in stream: String) async throws(LogError) -> SubjectsInfo.State {
      try await info(of: pattern, in: stream).state
    }

    /// A sorted page of the subjects that have messages, and the number of all. A server sends 100,000 per page.
    func page(
      of pattern: String, from offset: Int, in stream: String
    ) async throws(LogError) -> (subjects: [String], total: Int) {
      let info = try await info(of: pattern, from: offset, in: stream)
      let subjects = (info.state.subjects ?? [:]).keys.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
      return (subjects, info.total ?? 0)
    }

    /// At most one page.
    func subjects(_ pattern: String, in stream: String) async throws(LogError) -> [String] {
      try await state(of: pattern, in: stream).subjects.map { Array($0.keys) } ?? []
    }

    /// Also returns the stream's last position.
    func entries(of subject: String) async throws(LogError) -> (count: Int, last: UInt64) {
      let state = try await state(of: subject, in: stream)
      return (state.subjects?[subject] ?? 0, state.lastSeq)
    }

    // MARK: Consumers

    private struct ConsumerConfiguration: Encodable {
      var name: String
      var deliverSubject: String
      var deliverPolicy = "by_start_sequence"
      var optStartSeq: UInt64
      var ackPolicy = "none"
      var maxDeliver = 1
      var flowControl = true
      var idleHeartbeat: Int64
      var inactiveThreshold: Int64
      var memStorage = true
      var numReplicas = 1
      var filterSubject: String
    }

    private struct ConsumerRequest: Encodable {
      var streamName: String
      var config: ConsumerConfiguration
      var action = "create"
    }

    private struct ConsumerInfo: Decodable, Sendable { var numPending: UInt64? }

    /// Sends each message once, in order, until the target has no listener for a while. Returns the number of existing
    /// messages.
    @discardableResult func consume(
      _ subject: String, of stream: String, from position: UInt64, as name: String, to target: String,
      heartbeat: Duration
    ) async throws(LogError) -> UInt64 {
      let nanoseconds = Int64(heartbeat / .nanoseconds(1))
      let configuration = ConsumerConfiguration(
        name: name, deliverSubject: target, optStartSeq: max(1, position), idleHeartbeat: nanoseconds,
        inactiveThreshold: nanoseconds * 5, filterSubject: subject)
      // The request's subject cannot contain a pattern.
      let place = subject.contains("*") ? "" : "." + subject
      return try await request(
        "CONSUMER.CREATE.\(stream).\(name)\(place)",
        ConsumerRequest(streamName: stream, config: configuration), for: ConsumerInfo.self
      ).get().numPending ?? 0
    }

    func drop(_ name: String, of stream: String) {
      connection.publish("$JS.API.CONSUMER.DELETE.\(stream).\(name)")
    }
  }
#endif
