#if NATS
  #if canImport(FoundationEssentials)
    import FoundationEssentials
  #else
    import Foundation
  #endif
  import PureduxLog

  /// What is kept of one tree in the key-value store: the newest snapshot, and how far the log is truncated.
  ///
  ///     <tree>.snapshot        what the newest snapshot is: its position, its parts' name and number, its size
  ///     <tree>.<name>.<part>   its parts, as large as a message may be
  ///     <tree>.truncated       how far the log is truncated
  ///
  /// A snapshot's parts are written before it is named, and those of the ones before it are removed after.
  struct Bucket {
    private struct Manifest: Codable {
      /// What the subjects of the stream of the entries begin with: a snapshot of another one is none.
      var stream: String
      var position: UInt64
      var name: String
      var parts: Int
      var bytes: Int
    }

    private let jetStream: JetStream
    private let token: String

    init(_ jetStream: JetStream, token: String) {
      self.jetStream = jetStream
      self.token = token
    }

    private var stream: String { jetStream.bucketStream }
    private func subject(_ name: String) -> String { jetStream.bucketSubject(token + "." + name) }

    /// A value, and its place in the bucket: 0 for none.
    private func value<Value: Decodable>(
      _ name: String, as type: Value.Type
    ) async throws(LogError) -> (value: Value?, revision: UInt64) {
      guard let message = try await jetStream.last(of: subject(name), in: stream) else { return (nil, 0) }
      return (message.data.flatMap { try? JSONDecoder().decode(Value.self, from: $0) }, message.seq)
    }

    /// Puts a value in place of the one at a revision. False where there is another one meanwhile.
    private func put(_ value: some Encodable, as name: String, over revision: UInt64) async throws(LogError) -> Bool {
      guard let bytes = try? JSONEncoder().encode(value) else { throw .refused("The value of \(name).") }
      let answer = try await jetStream.put(subject(name), Array(bytes), revision: revision)
      if case .failure(let failure) = answer, JetStream.Failure.wrongLastSequence.contains(failure.errCode ?? 0) {
        return false
      }
      _ = try answer.get()
      return true
    }

    // MARK: Truncation

    private struct Mark: Codable {
      /// As of a snapshot: what was truncated in another stream is nothing here.
      var stream: String
      var position, first: UInt64
    }

    func truncation() async throws(LogError) -> NATSTree.Truncation? {
      let (mark, revision) = try await value("truncated", as: Mark.self)
      if mark == nil, revision > 0 { throw .damaged(position: 0, "It cannot be read how far the log is truncated.") }
      guard let mark, mark.stream == jetStream.prefix else { return nil }
      return NATSTree.Truncation(position: mark.position, first: mark.first)
    }

    /// Moves the mark, unless it is there, or further.
    func truncate(to truncation: NATSTree.Truncation) async throws(LogError) {
      while true {
        let (mark, revision) = try await value("truncated", as: Mark.self)
        if let mark, mark.stream == jetStream.prefix, mark.position >= truncation.position { return }
        let new = Mark(stream: jetStream.prefix, position: truncation.position, first: truncation.first)
        if try await put(new, as: "truncated", over: revision) { return }
      }
    }

    // MARK: Snapshots

    func newest() async throws(LogError) -> LogSnapshot? {
      var last: UInt64?
      while true {
        let (manifest, revision) = try await value("snapshot", as: Manifest.self)
        guard let manifest, manifest.stream == jetStream.prefix, manifest.parts >= 0, manifest.bytes >= 0 else {
          return nil
        }
        if let bytes = try await bytes(of: manifest) { return LogSnapshot(position: manifest.position, bytes: bytes) }
        // Parts are missing: those of a newer one have taken their place, or they are lost.
        if revision == last { return nil }
        last = revision
      }
    }

    private func bytes(of manifest: Manifest) async throws(LogError) -> [UInt8]? {
      var bytes: [UInt8] = []
      for part in 0..<manifest.parts {
        guard let message = try await jetStream.last(of: subject("\(manifest.name).\(part)"), in: stream) else {
          return nil
        }
        bytes += message.data ?? Data()
      }
      return bytes.count == manifest.bytes ? bytes : nil
    }

    /// Whether what is kept is to stay in place of a snapshot: it is as new, whole, and of this stream.
    private func stays(_ newest: Manifest?, beside snapshot: LogSnapshot) async throws(LogError) -> Bool {
      guard let newest, newest.position >= snapshot.position, newest.stream == jetStream.prefix else { return false }
      return try await jetStream.subjects(subject(newest.name + ".*"), in: stream).count == newest.parts
    }

    /// - Parameter always: Whether it also takes the place of one that is as new.
    func save(_ snapshot: LogSnapshot, always: Bool) async throws(LogError) {
      if !always, try await stays(value("snapshot", as: Manifest.self).value, beside: snapshot) { return }
      let name = "\(snapshot.position)-\(String(UInt64.random(in: .min ... .max), radix: 36))"
      let size = jetStream.valueLimit
      var parts = 0
      for start in stride(from: 0, to: snapshot.bytes.count, by: size) {
        let bytes = snapshot.bytes[start..<min(start + size, snapshot.bytes.count)]
        _ = try await jetStream.put(subject("\(name).\(parts)"), Array(bytes)).get()
        parts += 1
      }
      let manifest = Manifest(
        stream: jetStream.prefix, position: snapshot.position, name: name, parts: parts, bytes: snapshot.bytes.count)
      while true {
        let (newest, revision) = try await value("snapshot", as: Manifest.self)
        if !always, try await stays(newest, beside: snapshot) {
          return try await jetStream.purge(subject(name + ".*"), in: stream)
        }
        guard try await put(manifest, as: "snapshot", over: revision) else { continue }
        if let newest { try await jetStream.purge(subject(newest.name + ".*"), in: stream) }
        return try await removeParts(before: snapshot.position)
      }
    }

    /// Removes the parts of older snapshots, and those that were being written when their writer died.
    private func removeParts(before position: UInt64) async throws(LogError) {
      let found = try await jetStream.subjects(subject("*.*"), in: stream)
      for name in Set(found.map { $0.dropFirst(subject("").count).prefix { $0 != "." } }) {
        guard let other = name.split(separator: "-").first.flatMap({ UInt64($0) }), other < position else { continue }
        try await jetStream.purge(subject(name + ".*"), in: stream)
      }
    }
  }
#endif
