import Foundation
import NIOPosix
import Puredux
import Synchronization

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// The edits in the order of their commits, one JSON line each.
///
/// `append` is synchronous and only notes the edit; `flush(through:)` returns when it is on the disk. Everything that waits
/// when a write begins goes with that write, so that many writers share one flush.
public final class Journal: Sendable {
  /// What was found in the file when it was opened.
  public struct Contents: Sendable {
    public var edits: [Edit] = []
    /// Where the torn last line of a crash was set aside, if there was one.
    public var tornLine: URL?
  }

  public enum Failure: Error, Equatable, CustomStringConvertible {
    case cannotOpen(String, reason: String)
    case inUse(String)
    case damaged(String, line: Int)
    case cannotWrite(reason: String)

    public var description: String {
      switch self {
      case .cannotOpen(let path, let reason): "The journal \(path) cannot be opened: \(reason)"
      case .inUse(let path): "The journal \(path) is in use by another server."
      case .damaged(let path, let line):
        "Line \(line) of the journal \(path) cannot be read, and lines that can be read follow it. Nothing was changed."
      case .cannotWrite(let reason): "The edit could not be saved: \(reason)"
      }
    }
  }

  private struct Line: Codable {
    let position: Int
    let edit: Edit
  }

  private struct Waiting {
    var lines: [Line] = []
    var position: Int
  }

  private let waiting: Mutex<Waiting>
  private let writer: Writer

  private init(handle: FileHandle, position: Int) {
    waiting = Mutex(Waiting(position: position))
    writer = Writer(handle: handle, saved: position)
  }

  // MARK: Writing

  /// Notes an edit, and returns its position.
  public func append(_ edit: Edit) -> Int {
    waiting.withLock { waiting in
      waiting.position += 1
      waiting.lines.append(Line(position: waiting.position, edit: edit))
      return waiting.position
    }
  }

  /// Returns when all edits up to a position are on the disk.
  public func flush(through position: Int) async throws(Failure) {
    try await writer.flush(through: position) { [self] in
      waiting.withLock { waiting in
        defer { waiting.lines = [] }
        return waiting.lines
      }
    }
  }

  /// Saves what was appended, and lets go of the file.
  public func close() async throws(Failure) {
    try await flush(through: waiting.withLock { $0.position })
    await writer.close()
  }

  private actor Writer {
    private let handle: FileHandle
    private var saved: Int
    private var write: Task<Result<Int, Failure>, Never>?
    private var failure: Failure?

    init(handle: FileHandle, saved: Int) {
      self.handle = handle
      self.saved = saved
    }

    func flush(through position: Int, taking lines: @Sendable @escaping () -> [Line]) async throws(Failure) {
      while saved < position {
        // After a failed write the end of the file is unknown: nothing may follow it.
        if let failure { throw failure }
        let write = self.write ?? begin(lines)
        let result = await write.value
        if self.write == write { self.write = nil }
        switch result {
        case .success(let position): saved = max(saved, position)
        case .failure(let failure): self.failure = failure
        }
      }
    }

    func close() {
      failure = failure ?? .cannotWrite(reason: "The journal is closed.")
      try? handle.close()
    }

    private func begin(_ lines: @Sendable @escaping () -> [Line]) -> Task<Result<Int, Failure>, Never> {
      let write = Task<Result<Int, Failure>, Never> { [handle] in
        do {
          return .success(try await NIOThreadPool.singleton.runIfActive { try Self.write(lines(), to: handle) })
        } catch {
          return .failure(.cannotWrite(reason: "\(error)"))
        }
      }
      self.write = write
      return write
    }

    private static func write(_ lines: [Line], to handle: FileHandle) throws -> Int {
      let encoder = JSONEncoder()
      encoder.outputFormatting = .sortedKeys
      var data = Data()
      for line in lines {
        data += try encoder.encode(line)
        data.append(UInt8(ascii: "\n"))
      }
      try handle.write(contentsOf: data)
      try handle.synchronize()
      return lines.last?.position ?? 0
    }
  }

  // MARK: Opening

  /// Opens the journal at a path, or begins one.
  ///
  /// A last line that cannot be read is what a crash leaves of an edit that was never acknowledged: it is moved to a file
  /// beside the journal. A line that cannot be read and is not the last one is an error, and the file is left as it is.
  public static func open(at path: String) throws(Failure) -> (Journal, Contents) {
    let descriptor = Self.openFile(path, O_RDWR | O_CREAT | O_APPEND, 0o644)
    guard descriptor >= 0 else { throw .cannotOpen(path, reason: String(cString: strerror(errno))) }
    let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else { throw .inUse(path) }
    do {
      let data = try handle.readToEnd() ?? Data()
      var contents = Contents()
      let (edits, readable) = try read(data, at: path)
      contents.edits = edits
      if readable < data.count {
        let aside = URL(filePath: "\(path).torn-\(edits.count + 1)")
        try data[readable...].write(to: aside)
        try handle.truncate(atOffset: UInt64(readable))
        try handle.synchronize()
        contents.tornLine = aside
      }
      return (Journal(handle: handle, position: edits.count), contents)
    } catch let failure as Failure {
      throw failure
    } catch {
      throw .cannotOpen(path, reason: "\(error)")
    }
  }

  private static func openFile(_ path: String, _ flags: Int32, _ mode: mode_t) -> Int32 {
    #if canImport(Glibc)
      Glibc.open(path, flags, mode)
    #else
      Darwin.open(path, flags, mode)
    #endif
  }

  /// The edits that can be read, and how many bytes they take.
  private static func read(_ data: Data, at path: String) throws(Failure) -> (edits: [Edit], readable: Int) {
    let decoder = JSONDecoder()
    var edits: [Edit] = []
    var start = data.startIndex
    while start < data.endIndex {
      let end = data[start...].firstIndex(of: UInt8(ascii: "\n"))
      let line = end.flatMap { try? decoder.decode(Line.self, from: data[start..<$0]) }
      guard let end, let line, line.position == edits.count + 1 else {
        let isLast = end.map { data.index(after: $0) == data.endIndex } ?? true
        if isLast { break }
        throw .damaged(path, line: edits.count + 1)
      }
      edits.append(line.edit)
      start = data.index(after: end)
    }
    return (edits, start - data.startIndex)
  }
}

extension Interceptor<Boards, Action> {
  /// Journals every edit. The edit is noted in commit order, and a task sees to it that it is saved.
  static func journal(_ journal: Journal, onFailure: @escaping @Sendable (Journal.Failure) -> Void) -> Interceptor {
    Interceptor(matching: { if case .edit(let edit) = $0 { journal.append(edit) } else { nil } }) { position, _ in
      do throws(Journal.Failure) {
        try await journal.flush(through: position)
      } catch {
        onFailure(error)
      }
    }
  }
}
