#if NATS
  #if canImport(FoundationEssentials)
    import FoundationEssentials
  #else
    import Foundation
  #endif
  import PureduxLog

  /// What is kept of one tree in the key-value store: the newest snapshot, and what is to be there of the log.
  ///
  ///     <tree>.snapshot        what the newest snapshot is: its position, its parts' name and number, its size
  ///     <tree>.<name>.<part>   its parts, as large as a message may be
  ///     <tree>.truncated       how far the log is truncated, and the first entry that is to be there; from the tree's
  ///                            first entry on
  ///     <tree>.summary         the summary, for lists of trees
  ///     <tree>.opened          the tree is in use, and may have no entry yet
  ///     <key>/removed          how many trees of the key have been removed: the next one is called <key>/<number>
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

    /// A value, its place in the bucket, 0 for none, and whether there is something that cannot be read. A value that
    /// was deleted leaves an empty one.
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

    /// Puts a value in place of the one at a revision. False where there is another one meanwhile.
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

    // MARK: What is to be there

    private static let extentName = "truncated"

    private struct Mark: Codable {
      /// As of a snapshot: what was in another stream is nothing here.
      var stream: String
      var position, first: UInt64
      /// None where it was noted by a version that did not know of it.
      var start: UInt64?

      var extent: NATSTree.Extent { NATSTree.Extent(truncated: position, first: first, start: start) }
    }

    /// The key under which that is kept.
    var extentKey: String { token + "." + Self.extentName }

    /// None where the tree has had no entry, as far as is noted.
    func extent() async throws(LogError) -> NATSTree.Extent? { try await mark().value?.extent }

    private func mark() async throws(LogError) -> (value: Mark?, revision: UInt64) {
      let (mark, revision, isUnreadable) = try await value(Self.extentName, as: Mark.self)
      if isUnreadable { throw .damaged(position: 0, "It cannot be read how far the log is truncated.") }
      return (mark?.stream == jetStream.prefix ? mark : nil, revision)
    }

    /// Notes that the tree has entries, from one on, unless something is noted. Returns what is noted then.
    func begin(with first: UInt64) async throws(LogError) -> NATSTree.Extent {
      while true {
        let (mark, revision) = try await mark()
        if let mark { return mark.extent }
        let new = Mark(stream: jetStream.prefix, position: 0, first: first, start: first)
        if try await put(new, as: Self.extentName, over: revision) { return new.extent }
      }
    }

    /// Notes that the log is truncated up to a position, unless it is, or further.
    func truncate(through position: UInt64, to first: UInt64) async throws(LogError) {
      while true {
        let (mark, revision) = try await mark()
        if let mark, mark.position >= position { return }
        let new = Mark(stream: jetStream.prefix, position: position, first: first, start: mark?.start)
        if try await put(new, as: Self.extentName, over: revision) { return }
      }
    }

    private struct Opening: Codable {
      /// The stream, as in a snapshot.
      var stream: String
    }

    /// Notes that a tree without entries is in use, unless that is noted. Without the note nothing would show that
    /// there is a tree to remove.
    func noteOpening() async throws(LogError) {
      let name = "opened"
      // Most trees are noted for the first time, which takes one round trip.
      if try await put(Opening(stream: jetStream.prefix), as: name, over: 0) { return }
      while true {
        let (found, revision, _) = try await value(name, as: Opening.self)
        if found?.stream == jetStream.prefix { return }
        if try await put(Opening(stream: jetStream.prefix), as: name, over: revision) { return }
      }
    }

    // MARK: Removed trees

    /// What has become of the trees that a key has had.
    struct Removals: Codable, Equatable, Sendable {
      var stream: String
      /// How many have been removed: the number of the one that there is.
      var removed: UInt64
      /// Of so many nothing is left.
      var cleared: UInt64
    }

    static func removalsKey(of base: String) -> String { base + "/removed" }

    /// Of the key that the bucket's name is of.
    func removals() async throws(LogError) -> Removals { try await foundRemovals().value }

    private func foundRemovals() async throws(LogError) -> (value: Removals, revision: UInt64) {
      let subject = jetStream.bucketSubject(Self.removalsKey(of: token))
      let (found, revision, isUnreadable) = try await value(at: subject, as: Removals.self)
      if isUnreadable { throw .damaged(position: 0, "It cannot be read how many trees of the key were removed.") }
      if let found, found.stream == jetStream.prefix { return (found, revision) }
      return (Removals(stream: jetStream.prefix, removed: 0, cleared: 0), revision)
    }

    /// Notes that a tree is removed, or that nothing is left of it, unless that is noted.
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

    // MARK: The summary

    private static let summaryName = "summary"
    /// What the subjects of all trees' summaries are like.
    static let summaries = "*." + summaryName

    /// A summary as it is kept.
    struct StoredSummary: Codable, Sendable {
      /// As of a snapshot: of what was in another stream it is none.
      var stream: String
      var key: String
      /// How many trees of the key were removed before this one.
      var number: UInt64
      var position: UInt64
      var summary: Data

      var value: LogSummary { LogSummary(key: key, position: position, bytes: Array(summary)) }
    }

    /// What a message of the bucket has; none where that cannot be read, or is of another stream.
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

    /// False where a later one stays, of what the log has.
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

    /// Removes the summary where it is of what was before a position, or cannot be read.
    func removeSummary(before position: UInt64) async throws(LogError) {
      if let kept = try await storedSummary().value, kept.position >= position { return }
      try await jetStream.purge(subject(Self.summaryName), in: stream)
    }

    // MARK: All that there is

    /// Whether there is nothing of the tree.
    func isEmpty() async throws(LogError) -> Bool {
      try await jetStream.subjects(subject(">"), in: stream).isEmpty
    }

    /// Removes all that there is of the tree.
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

    /// Whether what is kept is to stay in place of a snapshot: it is as new, whole, and of this stream. Where that one
    /// is to replace it, it stays only if it is newer, and the log has what it is of.
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

    /// - Parameter head: How far the log goes, where it is to take the place of one that is as new.
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

    /// Removes what there is of snapshots before a position.
    func removeSnapshots(before position: UInt64) async throws(LogError) {
      let manifest = try await value("snapshot", as: Manifest.self).value
      if let manifest, manifest.stream == jetStream.prefix, manifest.position >= position {
        return try await removeParts(before: position)
      }
      try await jetStream.purge(subject("snapshot"), in: stream)
      try await removeParts(before: position)
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
