#if NATS
  import Foundation
  import Synchronization

  /// A TCP connection. Its calls block.
  final class Socket: Sendable {
    private let descriptor: Int32

    struct Problem: Error { let text: String }

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    private static func address(_ port: Int) -> sockaddr_in {
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = UInt16(port).bigEndian
      address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
      return address
    }

    private static func call(
      _ function: (Int32, UnsafePointer<sockaddr>?, socklen_t) -> Int32, _ descriptor: Int32, _ port: Int
    ) -> Int32 {
      var address = address(port)
      // SAFETY: the call reads the structure, of the given size, and keeps no pointer to it.
      return unsafe withUnsafePointer(to: &address) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          unsafe function(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
      }
    }

    convenience init(connectingTo port: Int) throws {
      self.init(socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0))
      let result = unsafe Self.call({ unsafe connect($0, $1, $2) }, descriptor, port)
      guard result == 0 else { throw Problem(text: "no connection to port \(port)") }
    }

    /// Listens at a port of this machine.
    convenience init(listeningAt port: Int) throws {
      self.init(socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0))
      var yes: Int32 = 1
      // SAFETY: the call reads the number, of the given size.
      unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
      let result = unsafe Self.call({ unsafe bind($0, $1, $2) }, descriptor, port)
      guard result == 0, listen(descriptor, 16) == 0 else { throw Problem(text: "port \(port) cannot be listened at") }
    }

    func next() -> Socket? {
      let descriptor = accept(descriptor, nil, nil)
      return descriptor < 0 ? nil : Socket(descriptor)
    }

    /// Received bytes. Empty at the end.
    func read() -> [UInt8] {
      // SAFETY: the call writes at most the buffer's size, and `count` is the number of written bytes.
      unsafe [UInt8](unsafeUninitializedCapacity: 65_536) { buffer, count in
        count = unsafe max(0, recv(descriptor, buffer.baseAddress, buffer.count, 0))
      }
    }

    /// Returns false if the connection has ended.
    func write(_ bytes: some Collection<UInt8>) -> Bool {
      let bytes = Array(bytes)
      var done = 0
      while done < bytes.count {
        // SAFETY: the call reads the rest of the bytes, which live until it returns.
        let result = unsafe bytes.withUnsafeBytes { buffer in
          unsafe send(descriptor, buffer.baseAddress?.advanced(by: done), bytes.count - done, Int32(MSG_NOSIGNAL))
        }
        if result <= 0 { return false }
        done += result
      }
      return true
    }

    /// Ends the connection for both sides and wakes their waiting calls.
    func end() { shutdown(descriptor, Int32(SHUT_RDWR)) }
  }

  /// A proxy between replicas and a NATS server. While it is bad, it repeats messages to a stream, delays traffic, and
  /// cuts connections.
  final class Proxy: Sendable {
    private struct State {
      var chance: Chance
      var connections: [Socket] = []
    }

    private let listener: Socket
    private let target: Int
    private let state: Mutex<State>
    private let isBad = Atomic(false)
    private let repetitionCount = Atomic(0)
    private let cutCount = Atomic(0)

    var figures: (repeated: Int, cut: Int) {
      (repetitionCount.load(ordering: .relaxed), cutCount.load(ordering: .relaxed))
    }

    init(at port: Int, to target: Int, _ chance: Chance) throws {
      listener = try Socket(listeningAt: port)
      self.target = target
      state = Mutex(State(chance: chance))
      Thread.detachNewThread { [listener, weak self] in
        while let connection = listener.next() { self?.take(connection) }
      }
    }

    deinit { end() }

    func end() {
      listener.end()
      cut()
    }

    func set(bad: Bool) { isBad.store(bad, ordering: .relaxed) }

    func cut() {
      let connections = state.withLock { state in
        defer { state.connections = [] }
        return state.connections
      }
      cutCount.add(connections.count / 2, ordering: .relaxed)
      for connection in connections { connection.end() }
    }

    private func take(_ connection: Socket) {
      guard let server = try? Socket(connectingTo: target) else { return connection.end() }
      state.withLock { $0.connections += [connection, server] }
      pass(from: connection, to: server, isRequest: true)
      pass(from: server, to: connection, isRequest: false)
    }

    private func pass(from source: Socket, to target: Socket, isRequest: Bool) {
      Thread.detachNewThread { [self] in
        var rest: [UInt8] = []
        while true {
          let bytes = source.read()
          if bytes.isEmpty { break }
          delay()
          guard isRequest else {
            if target.write(bytes) { continue } else { break }
          }
          rest += bytes
          let (whole, repeated) = repeating(&rest)
          repetitionCount.add(repeated, ordering: .relaxed)
          if !target.write(whole) { break }
        }
        source.end()
        target.end()
      }
    }

    private func delay() {
      guard isBad.load(ordering: .relaxed) else { return }
      let milliseconds = state.withLock { state in
        Int.random(in: 0..<20, using: &state.chance) == 0 ? Int.random(in: 1...400, using: &state.chance) : 0
      }
      Thread.sleep(forTimeInterval: Double(milliseconds) / 1000)
    }

    /// Takes the complete messages, and repeats some of those to the stream.
    private func repeating(_ rest: inout [UInt8]) -> (bytes: [UInt8], repeated: Int) {
      var (bytes, repeated, start) = ([UInt8](), 0, 0)
      while let newline = rest[start...].firstIndex(of: 10) {
        let words = String(decoding: rest[start..<newline], as: UTF8.self).split { $0 == " " || $0 == "\r" }
        var end = newline + 1
        let isPublished = words.first.map { ["PUB", "HPUB"].contains($0.uppercased()) } ?? false
        if isPublished, let size = words.last.flatMap({ Int($0) }) {
          end += size + 2
          guard end <= rest.count else { break }
        }
        bytes += rest[start..<end]
        if isPublished, words.count > 2, words[1].hasPrefix("puredux."), isBad.load(ordering: .relaxed),
          state.withLock({ Int.random(in: 0..<8, using: &$0.chance) == 0 })
        {
          bytes += rest[start..<end]
          repeated += 1
        }
        start = end
      }
      rest.removeFirst(start)
      return (bytes, repeated)
    }
  }

  /// Sends a request by NATS' own protocol, and returns the answer. Nil if there is none.
  enum NATSRequest {
    static func answer(_ subject: String, _ body: String = "", port: Int) -> String? {
      guard let socket = try? Socket(connectingTo: port) else { return nil }
      let timeout = Thread { [weak socket] in
        Thread.sleep(forTimeInterval: 6)
        socket?.end()
      }
      timeout.start()
      let request = """
        CONNECT {"verbose":false,"pedantic":false,"name":"trial"}\r
        SUB answers.trial 1\r
        PUB \(subject) answers.trial \(body.utf8.count)\r
        \(body)\r

        """
      guard socket.write(Array(request.utf8)) else { return nil }
      var text = ""
      while true {
        let bytes = socket.read()
        if bytes.isEmpty { return nil }
        text += String(decoding: bytes, as: UTF8.self)
        if text.contains("PING\r\n") {
          text = text.replacingOccurrences(of: "PING\r\n", with: "")
          _ = socket.write(Array("PONG\r\n".utf8))
        }
        if let message = text.range(of: "MSG answers.trial"), text[message.upperBound...].contains("}") {
          return String(text[message.lowerBound...])
        }
      }
    }
  }
#endif
