#if Simulation && compiler(>=6.3) && canImport(Glibc)
  import Foundation

  /// What a report needs of a process's standard error, which may have millions of lines, and need not be valid UTF-8.
  struct ErrorOutput {
    private static let lineLimit = 20
    private static let lengthLimit = 1 << 16

    /// The last events and steps of a world.
    private(set) var trace: [String] = []
    /// The number of all events and steps, also of those that `trace` no longer has.
    private(set) var eventCount = 0
    private let traceLimit: Int
    /// The first recorded issue and the lines after it.
    private(set) var issue: [String] = []
    /// The message of a trap, or the last lines.
    private(set) var end: [String] = []
    private var hasTrapped = false

    /// Nil if the file cannot be read. If there are more lines than `traceLimit`, the trace has the last ones, at least so
    /// many.
    init?(path: String, traceLimit: Int) {
      self.traceLimit = traceLimit
      guard let file = FileHandle(forReadingAtPath: path) else { return nil }
      var rest = Data()
      do {
        while let data = try file.read(upToCount: 1 << 20), !data.isEmpty {
          guard let newline = data.lastIndex(of: UInt8(ascii: "\n")) else {
            if rest.count < Self.lengthLimit { rest += data }
            continue
          }
          rest += data[..<newline]
          for line in rest.split(separator: UInt8(ascii: "\n")) { add(line) }
          rest = Data(data[(newline + 1)...])
        }
      } catch {
        return nil
      }
      if !rest.isEmpty { add(rest) }
    }

    private mutating func add(_ line: Data) {
      let line = String(decoding: line.prefix(Self.lengthLimit), as: UTF8.self)
      if line.hasPrefix("step ") {
        trace.append(line)
        eventCount += 1
        if trace.count / 2 > traceLimit { trace.removeFirst(trace.count - traceLimit) }
        return
      }
      if issue.count < Self.lineLimit, !issue.isEmpty || line.contains("recorded an issue") { issue.append(line) }
      if line.contains("Fatal error: ") { (hasTrapped, end) = (true, []) }
      end.append(line)
      if end.count > Self.lineLimit {
        if hasTrapped { end.removeLast() } else { end.removeFirst() }
      }
    }
  }
#endif
