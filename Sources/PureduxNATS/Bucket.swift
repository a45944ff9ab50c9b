#if NATS
  #if canImport(FoundationEssentials)
    import FoundationEssentials
  #else
    import Foundation
  #endif
  import PureduxLog

  /// The data of one tree in the key-value store.
  ///
  ///     <tree>.snapshot        the newest snapshot's manifest
  ///     <tree>.<name>.<part>   the snapshot's parts, each as large as a message may be
  ///     <tree>.truncated       the truncated position and the first entry after it, once the tree has had an entry
  ///     <tree>.summary         the summary
  ///     <tree>.opened          the tree is in use, and may have no entry yet
  ///     <key>/removed          the number of the key's removed trees: the next tree is <key>/<number>
  ///
  /// A snapshot's parts are written before its manifest, and older parts removed afterwards.
  struct Bucket {
    private struct Manifest: Codable {
      /// The subject prefix of the entries. Data of another stream is ignored.
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

    /// A value, its revision (0 for none), and whether it cannot be decoded. A deleted value leaves an empty message.
    private func value<Value: Decodable>(
      _ name: String, as type: Value.Type
    ) async throws(LogError) -> (value: Value?, revision: UInt64, isUnreadable: Bool) {
      try await value(at: subject(name), as: type)
    }

    private func value<Value: Decodable>(
      at subject: String, as type: Value.Type
    ) async throws(LogError) -> (value: Value?, revision: UInt64, isUnreadable: Bool) {
      guard let message = try await jetStream.last(of: subject, in: stream) else { return (nil, 0, false) }
      guard let data = message.data, !data.isEmpty else { return (nil, message.seq, false) }
      let value = try? JSONDecoder().decode(Value.self, from: data)
      return (value, message.seq, value == nil)
    }

    /// Returns false if another writer was first.
    private func put(_ value: some Encodable, as name: String, over revision: UInt64) async throws(LogError) -> Bool {
      try await put(value, at: subject(name), over: revision)
    }

    private func put(
      _ value: some Encodable, at subject: String, over revision: UInt64
    ) async throws(LogError) -> Bool {
      guard let bytes = try? JSONEncoder().encode(value) else { throw .refused("The value of \(subject).") }
      let answer = try await jetStream.put(subject, Array(bytes), revision: revision)
      if case .failure(let failure) = answer, JetStream.Failure.wrongLastSequence.contains(failure.errCode ?? 0) {
        return false
      }
      _ = try answer.get()
      return true
    }

    // MARK: Extent

    private static let extentName = "truncated"

    private struct Mark: Codable {
      var stream: String
      var position, first: UInt64
      /// Nil in notes by older versions.
      var start: UInt64?

      var extent: NATSTree.Extent { NATSTree.Extent(truncated: position, first: first, start: start) }
    }

    var extentKey: String { token + "." + Self.extentName }

    func extent() async throws(LogError) -> NATSTree.Extent? { try await mark().value?.extent }

    private func mark() async throws(LogError) -> (value: Mark?, revision: UInt64) {
      let (mark, revision, isUnreadable) = try await value(Self.extentName, as: Mark.self)
      if isUnreadable { throw .damaged(position: 0, "The log's truncated position cannot be read.") }
      return (mark?.stream == jetStream.prefix ? mark : nil, revision)
    }

    /// Notes the tree's first entry, once.
    func begin(with first: UInt64) async throws(LogError) -> NATSTree.Extent {
      while true {
        let (mark, revision) = try await mark()
        if let mark { return mark.extent }
        let new = Mark(stream: jetStream.prefix, position: 0, first: first, start: first)
        if try await put(new, as: Self.extentName, over: revision) { return new.extent }
      }
    }

    func truncate(through position: UInt64, to first: UInt64) async throws(LogError) {
      while true {
        let (mark, revision) = try await mark()
        if let mark, mark.position >= position { return }
        let new = Mark(stream: jetStream.prefix, position: position, first: first, start: mark?.start)
        if try await put(new, as: Self.extentName, over: revision) { return }
      }
    }

    private struct Opening: Codable {
      var stream: String
    }

    /// `remove` finds a tree without entries by this note.
    func noteOpening() async throws(LogError) {
      let name = "opened"
      // Usually there is no note yet.
      if try await put(Opening(stream: jetStream.prefix), as: name, over: 0) { return }
      while true {
        let (found, revision, _) = try await value(name, as: Opening.self)
        if found?.stream == jetStream.prefix { return }
        if try await put(Opening(stream: jetStream.prefix), as: name, over: revision) { return }
      }
    }

    // MARK: Removed trees

    struct Removals: Codable, Equatable, Sendable {
      var stream: String
      /// Also the present tree's number.
      var removed: UInt64
      var cleared: UInt64
    }

    static func removalsKey(of base: String) -> String { base + "/removed" }

    /// The bucket's token must be that of the key's first tree.
    func removals() async throws(LogError) -> Removals { try await foundRemovals().value }

    private func foundRemovals() async throws(LogError) -> (value: Removals, revision: UInt64) {
      let subject = jetStream.bucketSubject(Self.removalsKey(of: token))
      let (found, revision, isUnreadable) = try await value(at: subject, as: Removals.self)
      if isUnreadable { throw .damaged(position: 0, "The number of the key's removed trees cannot be read.") }
      if let found, found.stream == jetStream.prefix { return (found, revision) }
      return (Removals(stream: jetStream.prefix, removed: 0, cleared: 0), revision)
    }

    func noteRemoval(of number: UInt64, isCleared: Bool = false) async throws(LogError) {
      while true {
        var (removals, revision) = try await foundRemovals()
        let before = removals
        removals.removed = max(removals.removed, number + 1)
        if isCleared { removals.cleared = max(removals.cleared, number + 1) }
        if removals == before { return }
        let subject = jetStream.bucketSubject(Self.removalsKey(of: token))
        if try await put(removals, at: subject, over: revision) { return }
      }
    }

    // MARK: Summary

    private static let summaryName = "summary"
    static let summaries = "*." + summaryName

    struct StoredSummary: Codable, Sendable {
      var stream: String
      var key: String
      var number: UInt64
      var position: UInt64
      var summary: Data

      var value: LogSummary { LogSummary(key: key, position: position, bytes: Array(summary)) }
    }

    static func summary(in bytes: [UInt8], of prefix: String) -> StoredSummary? {
      guard let stored = try? JSONDecoder().decode(StoredSummary.self, from: Data(bytes)), stored.stream == prefix
      else {
        return nil
      }
      return stored
    }

    func summary() async throws(LogError) -> LogSummary? { try await storedSummary().value?.value }

    private func storedSummary() async throws(LogError) -> (value: StoredSummary?, revision: UInt64) {
      let (stored, revision, _) = try await value(Self.summaryName, as: StoredSummary.self)
      return (stored?.stream == jetStream.prefix ? stored : nil, revision)
    }

    /// Returns false if the stored summary is later, and the log reaches its position.
    func save(
      _ summary: LogSummary, number: UInt64, head: () async throws(LogError) -> UInt64
    ) async throws(LogError) -> Bool {
      let new = StoredSummary(
        stream: jetStream.prefix, key: summary.key, number: number, position: summary.position,
        summary: Data(summary.bytes))
      while true {
        let (kept, revision) = try await storedSummary()
        if let kept {
          if kept.value == summary { return true }
          if kept.position > summary.position, try await kept.position <= head() { return false }
        }
        if try await put(new, as: Self.summaryName, over: revision) { return true }
      }
    }

    func removeSummary(before position: UInt64) async throws(LogError) {
      if let kept = try await storedSummary().value, kept.position >= position { return }
      try await jetStream.purge(subject(Self.summaryName), in: stream)
    }

    // MARK: All of a tree

    func isEmpty() async throws(LogError) -> Bool {
      try await jetStream.subjects(subject(">"), in: stream).isEmpty
    }

    func clear() async throws(LogError) { try await jetStream.purge(subject(">"), in: stream) }

    // MARK: Snapshots

    func newest() async throws(LogError) -> LogSnapshot? {
      var last: UInt64?
      while true {
        let (manifest, revision, _) = try await value("snapshot", as: Manifest.self)
        guard let manifest, manifest.stream == jetStream.prefix, manifest.parts >= 0, manifest.bytes >= 0 else {
          return nil
        }
        if let bytes = try await bytes(of: manifest) { return LogSnapshot(position: manifest.position, bytes: bytes) }
        // A newer snapshot has replaced the parts, or they are lost.
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

    /// Whether the stored snapshot is complete, of this stream, and not older. With a `head`, it must be newer, and the
    /// log must reach its position.
    private func stays(
      _ newest: Manifest?, beside snapshot: LogSnapshot, _ head: (() async throws(LogError) -> UInt64)?
    ) async throws(LogError) -> Bool {
      guard let newest, newest.position >= snapshot.position, newest.stream == jetStream.prefix else { return false }
      if let head {
        if newest.position == snapshot.position { return false }
        if try await newest.position > head() { return false }
      }
      return try await jetStream.subjects(subject(newest.name + ".*"), in: stream).count == newest.parts
    }

    /// - Parameter head: The log's head, to replace a snapshot of the same position.
    func save(
      _ snapshot: LogSnapshot, replacing head: (() async throws(LogError) -> UInt64)? = nil
    ) async throws(LogError) {
      if try await stays(value("snapshot", as: Manifest.self).value, beside: snapshot, head) { return }
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
        let (newest, revision, _) = try await value("snapshot", as: Manifest.self)
        if try await stays(newest, beside: snapshot, head) {
          return try await jetStream.purge(subject(name + ".*"), in: stream)
        }
        guard try await put(manifest, as: "snapshot", over: revision) else { continue }
        if let newest { try await jetStream.purge(subject(newest.name + ".*"), in: stream) }
        return try await removeParts(before: snapshot.position)
      }
    }

    func removeSnapshots(before position: UInt64) async throws(LogError) {
      let manifest = try await value("snapshot", as: Manifest.self).value
      if let manifest, manifest.stream == jetStream.prefix, manifest.position >= position {
        return try await removeParts(before: position)
      }
      try await jetStream.purge(subject("snapshot"), in: stream)
      try await removeParts(before: position)
    }

    /// Also removes parts of writers that died.
    private func removeParts(before position: UInt64) async throws(LogError) {
      let found = try await jetStream.subjects(subject("*.*"), in: stream)
      for name in Set(found.map { $0.dropFirst(subject("").count).prefix { $0 != "." } }).sorted() {
        guard let other = name.split(separator: "-").first.flatMap({ UInt64($0) }), other < position else { continue }
        try await jetStream.purge(subject(name + ".*"), in: stream)
      }
    }
  }
#endif
