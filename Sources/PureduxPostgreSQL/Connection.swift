#if PostgreSQL
  import CPostgreSQL
  #if canImport(Darwin)
    import Darwin
  #elseif canImport(Musl)
    import Musl
  #else
    import Glibc
  #endif
  import Puredux
  import PureduxLog

  struct Statement: Sendable {
    var text: String
    var parameters: [Parameter] = []
  }

  /// Settings by which the server ends a statement that waits for a lock, or that no caller waits for. They are in the
  /// startup packet: a statement waits for table locks while it is planned, before its own settings apply.
  struct Settings: Sendable {
    /// In milliseconds.
    let lockTimeout: Int
    /// In milliseconds; nil for the role's setting. Does not end a commit's wait for a standby.
    let statementTimeout: Int?

    /// - Parameters:
    ///   - answerLimit: How long a caller waits. The server gives up earlier, so that the caller gets its error.
    ///   - limitsStatements: Whether no caller waits longer for any statement.
    init(answerLimit: Duration, limitsStatements: Bool) {
      let milliseconds = min(max(0.1, answerLimit / .seconds(1)), 2_000_000) * 1000
      lockTimeout = Int(milliseconds * 0.8)
      statementTimeout = limitsStatements ? Int(milliseconds * 0.9) : nil
    }

    /// Warnings about a commit must arrive, whatever the role sets.
    private var values: [(name: String, value: String)] {
      [("lock_timeout", "\(lockTimeout)"), ("client_min_messages", "warning")]
        + (statementTimeout.map { [("statement_timeout", "\($0)")] } ?? [])
    }

    var options: String { values.map { "-c \($0.name)=\($0.value)" }.joined(separator: " ") }

    /// A condition: the connection lacks a setting, as a pooler may drop it.
    var areMissing: String {
      let pairs = values.map { "('\($0.name)', '\($0.value)')" }.joined(separator: ", ")
      return "(SELECT count(*) FROM pg_catalog.pg_settings WHERE (name, setting) IN (\(pairs))) <> \(values.count)"
    }

    var statement: Statement {
      let calls = values.map { "set_config('\($0.name)', '\($0.value)', true)" }
      return Statement(text: "SELECT " + calls.joined(separator: ", "))
    }
  }

  /// One connection of libpq. Calls block, up to a limit.
  // SAFETY: libpq made the pointer, and only `deinit` destroys it. One thread at a time calls libpq's functions, as
  // only blocks on the session's serial queue use a connection.
  @safe final class Connection: @unchecked Sendable {
    struct Patience: Sendable {
      var limit: Duration
      /// Called after each `limit`, with the total time. If it returns false, the connection is abandoned.
      var goesOn: (@Sendable (Duration) -> Bool)?
    }

    private final class Notices {
      var isUnreplicated = false
    }

    private let connection: OpaquePointer
    private let notices: Notices
    let session: ObjectIdentifier
    private(set) var isBroken = false
    /// Whether the next connection should go to another host: this one does not answer, keeps a row locked, or lacks
    /// entries.
    private(set) var isLeft = false
    /// The index of the caller's statement that the server refused.
    private(set) var refused: Int?
    /// The first statements of each transaction.
    private var preamble: [Statement] = []
    /// From then on a refusal counts as temporary.
    var isOpened = false

    private init(_ connection: OpaquePointer, of session: ObjectIdentifier) {
      unsafe self.connection = connection
      self.session = session
      notices = Notices()
      // SAFETY: libpq calls back with the pointer only within its functions, and not after `PQfinish`, which `deinit`
      // calls while the notices are still held.
      unsafe PQsetNoticeReceiver(
        connection,
        { context, result in
          guard let context = unsafe context, let result = unsafe result,
            let source = unsafe PQresultErrorField(result, diagnostic("R"))
          else { return }
          // The wait for a standby was cancelled, and yet the server reports success.
          if unsafe strcmp(source, "SyncRepWaitForLSN") == 0 {
            unsafe Unmanaged<Notices>.fromOpaque(context).takeUnretainedValue().isUnreplicated = true
          }
        }, unsafe Unmanaged.passUnretained(notices).toOpaque())
    }

    deinit {
      // SAFETY: this is the last use of the pointer.
      unsafe PQfinish(connection)
    }

    // MARK: Connecting

    /// libpq's own message is not used, as it may contain a password.
    static func check(_ text: String) throws(LogError) {
      // SAFETY: libpq made the options, which are freed here. No message is requested.
      guard let options = unsafe PQconninfoParse(text, nil) else {
        throw .refused(
          "libpq cannot read the connection string: it is neither postgresql://user@host/database nor "
            + "host=… dbname=…, names an unknown option, or has a character that must be written as %XX.")
      }
      unsafe PQconninfoFree(options)
      guard !hasRawSign(text) else {
        throw .refused(
          "The connection string has an @ or / in its user name or password: write @ as %40 and / as %2F.")
      }
    }

    /// Whether libpq would take a part of a password for the name of a host or a database, which errors show.
    private static func hasRawSign(_ text: String) -> Bool {
      guard let scheme = text.firstRange(of: "://"), ["postgresql", "postgres"].contains(text[..<scheme.lowerBound])
      else {
        return false
      }
      var rest = text[scheme.upperBound...]
      // libpq looks for the end of the credentials before the first /.
      if let sign = rest.firstIndex(where: { $0 == "@" || $0 == "/" }), rest[sign] == "@" {
        rest = rest[rest.index(after: sign)...]
      }
      return rest.prefix { $0 != "?" }.contains("@")
    }

    /// The connection string takes precedence over this library's defaults.
    static func open(
      _ text: String, settings: Settings, beginningWith host: Int, for session: ObjectIdentifier, limit: Duration
    ) throws(LogError) -> Connection {
      var parameters = [
        ("target_session_attrs", "read-write"), ("keepalives_idle", "10"), ("keepalives_interval", "5"),
        ("keepalives_count", "3"), ("fallback_application_name", "puredux"), ("dbname", text),
        ("client_encoding", "UTF8"),
      ]
      // libpq reads all options before it refuses this value, and connects to no server.
      let unconnected = try start(parameters + [("target_session_attrs", "none of these")], for: session)
      if host > 0, let hosts = unconnected.hosts(beginningWith: host) { parameters += hosts }
      let options = [unconnected.options()["options"], settings.options].compactMap(\.self).joined(separator: " ")
      let limit = unconnected.ownLimit ?? limit
      do throws(LogError) {
        let opened = try start(parameters + [("options", options)], for: session)
        try opened.connect(limit: limit)
        return opened
      } catch {
        // A pooler refuses settings in the startup packet: each transaction then begins with them.
        guard Failure.isOfStartupParameter(error) else { throw error }
        let opened = try start(parameters, for: session)
        try opened.connect(limit: limit)
        return opened
      }
    }

    private static func start(
      _ parameters: [(name: String, value: String)], for session: ObjectIdentifier
    ) throws(LogError) -> Connection {
      // SAFETY: the copies are freed after the call, which copies them. Both arrays end with a null pointer.
      var names = unsafe parameters.map { unsafe UnsafePointer(strdup($0.name)) } + [nil]
      var values = unsafe parameters.map { unsafe UnsafePointer(strdup($0.value)) } + [nil]
      defer {
        unsafe (names + values).forEach { unsafe free(UnsafeMutableRawPointer(mutating: $0)) }
      }
      guard let connection = unsafe PQconnectStartParams(&names, &values, 1) else {
        throw .unavailable("libpq has no memory for a connection.")
      }
      unsafe PQsetErrorVerbosity(connection, PQERRORS_VERBOSE)
      return unsafe Connection(connection, of: session)
    }

    private func options() -> [String: String] {
      // SAFETY: libpq made the array, which ends with an option without a keyword, and is freed here. Used texts are
      // copied.
      guard let options = unsafe PQconninfo(connection) else { return [:] }
      defer { unsafe PQconninfoFree(options) }
      var all: [String: String] = [:]
      var next = unsafe options
      while let keyword = unsafe next.pointee.keyword {
        if let value = unsafe next.pointee.val { unsafe all[String(cString: keyword)] = unsafe String(cString: value) }
        unsafe next += 1
      }
      return all
    }

    /// Nil if there is only one host.
    private func hosts(beginningWith host: Int) -> [(name: String, value: String)]? {
      let options = options()
      var turned: [(name: String, value: String)] = []
      for name in ["host", "hostaddr", "port"] {
        guard let parts = options[name]?.split(separator: ",", omittingEmptySubsequences: false), parts.count > 1 else {
          continue
        }
        let first = host % parts.count
        turned.append((name, (parts[first...] + parts[..<first]).joined(separator: ",")))
      }
      return turned.isEmpty ? nil : turned
    }

    private var ownLimit: Duration? {
      options()["connect_timeout"].flatMap { Int($0) }.flatMap { $0 > 0 ? .seconds(min($0, 1 << 20)) : nil }
    }

    private func connect(limit: Duration) throws(LogError) {
      let deadline = ContinuousClock.now + limit
      // SAFETY: the connection is valid until `deinit`. Its descriptor is requested before each wait, as libpq
      // requires.
      if unsafe PQstatus(connection) == CONNECTION_BAD { throw connectionFailure() }
      var awaited = PGRES_POLLING_WRITING
      while awaited != PGRES_POLLING_OK {
        let isReady = wait(for: awaited == PGRES_POLLING_WRITING ? POLLOUT : POLLIN, until: deadline)
        guard isReady else { throw .unavailable("\(place) did not accept a connection within \(limit).") }
        awaited = unsafe PQconnectPoll(connection)
        if awaited == PGRES_POLLING_FAILED { throw connectionFailure() }
      }
      guard unsafe PQsetnonblocking(connection, 1) == 0 else { throw connectionFailure() }
    }

    private var place: String {
      // SAFETY: the texts belong to the connection, and are copied.
      let host = unsafe PQhost(connection).map { unsafe String(cString: $0) } ?? ""
      let port = unsafe PQport(connection).map { unsafe String(cString: $0) } ?? ""
      return host.isEmpty ? "The database" : host.hasPrefix("/") ? "The database at \(host)" : "\(host):\(port)"
    }

    private var message: String {
      // SAFETY: the text is valid until the connection's next call, and is copied.
      unsafe PQerrorMessage(connection).map { unsafe String(cString: $0) }.map(Failure.oneLine) ?? "no reason is known"
    }

    private func connectionFailure() -> LogError {
      isBroken = true
      // SAFETY: the connection is valid until `deinit`.
      if unsafe PQconnectionNeedsPassword(connection) == 1 {
        return .refused("\(message). Give a password, in the connection string, in PGPASSWORD, or in a password file.")
      }
      return Failure.connecting(message)
    }

    var descriptor: Int32 {
      // SAFETY: the connection is valid until `deinit`.
      unsafe PQsocket(connection)
    }

    private func wait(for events: Int32, until deadline: ContinuousClock.Instant) -> Bool {
      var waited = pollfd(fd: descriptor, events: Int16(events), revents: 0)
      while true {
        let left = ContinuousClock.now.duration(to: deadline)
        guard left > .zero else { return false }
        let (seconds, attoseconds) = left.components
        let milliseconds = min(seconds, 1000) * 1000 + attoseconds / 1_000_000_000_000_000 + 1
        // SAFETY: there is one descriptor, in a variable that outlives the call.
        let found = unsafe poll(&waited, 1, Int32(milliseconds))
        if found > 0 || (found < 0 && errno != EINTR) { return true }
      }
    }

    // MARK: Statements

    private static let begin = Statement(text: "BEGIN ISOLATION LEVEL READ COMMITTED")

    /// Each transaction must set its isolation if the default is another one, in which an append that has waited for
    /// another one fails. It must set its limits if a pooler has dropped them.
    func checkSettings(_ settings: Settings, _ patience: Patience) throws(LogError) {
      let statement = Statement(
        text: """
          SELECT current_setting('default_transaction_isolation') <> 'read committed', \(settings.areMissing)
          """)
      let answer = try ask(statement, patience)
      if answer.isTrue(0, 1) {
        preamble = [Self.begin, settings.statement]
      } else if answer.isTrue(0, 0) {
        preamble = [Self.begin]
      }
    }

    func query(_ statement: Statement, _ patience: Patience) throws(LogError) -> Answer {
      if preamble.isEmpty { try ask(statement, patience) } else { try transaction([statement], patience)[0] }
    }

    private func ask(_ statement: Statement, _ patience: Patience) throws(LogError) -> Answer {
      (notices.isUnreplicated, refused) = (false, nil)
      try send(statement)
      try flush(patience)
      var answer: Answer?
      var failure: LogError?
      while let next = try nextAnswer(patience) {
        // A commit's failure is in the last answer.
        if let error = next.failure() { (failure, refused) = (error, 0) }
        answer = next
      }
      try checkCommit()
      if let failure { throw found(failure) }
      guard let answer else { throw lost("The database sent no answer.") }
      return answer
    }

    func transaction(_ statements: [Statement], _ patience: Patience) throws(LogError) -> [Answer] {
      (notices.isUnreplicated, refused) = (false, nil)
      // SAFETY: the connection is valid until `deinit`. No statement is in progress, as each call reads all its
      // answers.
      guard unsafe PQenterPipelineMode(connection) == 1 else { throw lost(message) }
      let preamble = preamble.isEmpty ? [Self.begin] : preamble
      for statement in preamble + statements + [Statement(text: "COMMIT")] { try send(statement) }
      guard unsafe PQpipelineSync(connection) == 1 else { throw lost(message) }
      try flush(patience)
      var answers: [Answer] = []
      var failure: LogError?
      var isCommitted = false
      while true {
        guard let next = try nextAnswer(patience) else { continue }
        if next.isSync { break }
        if next.isSkipped { continue }
        if let error = next.failure() {
          let place = answers.count - preamble.count
          if failure == nil, statements.indices.contains(place) { refused = place }
          failure = failure ?? error
        } else {
          answers.append(next)
        }
        isCommitted = next.tag == "COMMIT"
      }
      guard unsafe PQexitPipelineMode(connection) == 1 else { throw lost(message) }
      if let failure {
        if unsafe PQtransactionStatus(connection) != PQTRANS_IDLE {
          let refused = refused
          _ = try ask(Statement(text: "ROLLBACK"), patience)
          self.refused = refused
        }
        throw found(failure)
      }
      try checkCommit()
      guard isCommitted, answers.count == preamble.count + statements.count + 1 else {
        throw lost("The database has not committed a transaction, and has not said why.")
      }
      return Array(answers[preamble.count..<preamble.count + statements.count])
    }

    private func checkCommit() throws(LogError) {
      if notices.isUnreplicated {
        throw lost("Somebody has cancelled the wait for a standby: whether the standby has the commit is not known.")
      }
    }

    private func send(_ statement: Statement) throws(LogError) {
      let parameters = EncodedParameters(statement.parameters)
      // SAFETY: libpq copies the parameters within the call.
      let isSent = unsafe parameters.withPointers { types, values, lengths, formats in
        unsafe PQsendQueryParams(
          connection, statement.text, Int32(lengths.count), types.baseAddress, values.baseAddress, lengths.baseAddress,
          formats.baseAddress, 1)
      }
      guard isSent == 1 else { throw lost(message) }
    }

    private func flush(_ patience: Patience) throws(LogError) {
      try wait(patience, for: POLLIN | POLLOUT) { () throws(LogError) in
        // SAFETY: the connection is valid until `deinit`.
        let left = unsafe PQflush(connection)
        if left < 0 { throw lost(message) }
        return left == 0
      }
    }

    /// Nil after the last answer to a statement.
    private func nextAnswer(_ patience: Patience) throws(LogError) -> Answer? {
      // SAFETY: the connection is valid until `deinit`. The answer frees the result.
      try wait(patience, for: POLLIN) { () throws(LogError) in unsafe PQisBusy(connection) == 0 }
      guard let result = unsafe PQgetResult(connection) else {
        if unsafe PQstatus(connection) == CONNECTION_BAD { throw lost(message) }
        return nil
      }
      return unsafe Answer(result)
    }

    /// Reads incoming data while it waits.
    private func wait(
      _ patience: Patience, for events: Int32, _ isDone: () throws(LogError) -> Bool
    ) throws(LogError) {
      // SAFETY: the connection is valid until `deinit`.
      let isEncrypted = unsafe PQsslInUse(connection) == 1
      let begin = ContinuousClock.now
      var deadline = begin + patience.limit
      while try !isDone() {
        // Deciphered data beyond libpq's buffer does not make the descriptor readable. Servers from 17 on, and TLS
        // proxies, send large records.
        let next = isEncrypted ? min(deadline, .now + .milliseconds(10)) : deadline
        if !wait(for: events, until: next), next == deadline {
          let waited = begin.duration(to: .now)
          guard patience.goesOn?(waited) ?? false else {
            giveUp()
            throw lost("\(place) has not answered within \(patience.limit).")
          }
          deadline = .now + patience.limit
          continue
        }
        try consume()
      }
    }

    private func consume() throws(LogError) {
      // SAFETY: the connection is valid until `deinit`.
      guard unsafe PQconsumeInput(connection) == 1 else { throw lost(message) }
    }

    // MARK: Failures

    private func lost(_ text: String) -> LogError {
      isBroken = true
      return .unavailable(text)
    }

    /// The server has become a standby, or is shutting down.
    private func found(_ failure: LogError) -> LogError {
      if case .unavailable = failure { isBroken = isBroken || Failure.isOfServer(failure) }
      if Failure.isLocked(failure), hosts(beginningWith: 1) != nil { isLeft = true }
      return isOpened ? failure.passing : failure
    }

    func giveUp() { (isBroken, isLeft) = (true, true) }

    // MARK: Notifications

    func notifications() throws(LogError) -> [String] {
      try consume()
      var texts: [String] = []
      // SAFETY: each notification is freed here, and its text is copied.
      while let notification = unsafe PQnotifies(connection) {
        unsafe texts.append(String(cString: notification.pointee.extra))
        unsafe PQfreemem(notification)
      }
      return texts
    }
  }

  private func diagnostic(_ field: Unicode.Scalar) -> Int32 { Int32(field.value) }

  // SAFETY: the pointer is a result of libpq, which belongs to this object, is not changed, and is freed by `deinit`.
  // It does not leave the queue of its connection.
  @safe final class Answer {
    private let result: OpaquePointer

    fileprivate init(_ result: OpaquePointer) { unsafe self.result = result }

    deinit { unsafe PQclear(result) }

    var count: Int { Int(unsafe PQntuples(result)) }

    /// The end of a transaction's answers.
    fileprivate var isSync: Bool { unsafe PQresultStatus(result) == PGRES_PIPELINE_SYNC }

    /// An earlier statement failed.
    fileprivate var isSkipped: Bool { unsafe PQresultStatus(result) == PGRES_PIPELINE_ABORTED }

    fileprivate var tag: String { unsafe PQcmdStatus(result).map { unsafe String(cString: $0) } ?? "" }

    var changed: Int {
      // SAFETY: the text belongs to the result, and is copied.
      unsafe PQcmdTuples(result).flatMap { unsafe Int(String(cString: $0)) } ?? 0
    }

    fileprivate func failure() -> LogError? {
      let status = unsafe PQresultStatus(result)
      if status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK { return nil }
      // SAFETY: the texts belong to the result, and are copied.
      func field(_ code: Unicode.Scalar) -> String? {
        unsafe PQresultErrorField(result, diagnostic(code)).map { unsafe String(cString: $0) }
      }
      let whole = unsafe PQresultErrorMessage(result).map { unsafe String(cString: $0) } ?? ""
      return Failure.answered(
        code: field("C") ?? "", message: field("M") ?? Failure.oneLine(whole), detail: field("D"), hint: field("H"))
    }

    /// Nil if the value is null or missing.
    private func value<Result>(
      _ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result? {
      // SAFETY: the indices are checked against the result's bounds. The bytes belong to the result, and are valid
      // during the call.
      let (row, column) = (Int32(row), Int32(column))
      guard unsafe PQntuples(result) > row, unsafe PQnfields(result) > column,
        unsafe PQgetisnull(result, row, column) == 0, let start = unsafe PQgetvalue(result, row, column)
      else { return nil }
      return unsafe body(UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, column))))
    }

    func integer(_ row: Int, _ column: Int) -> Int64? {
      unsafe value(row, column) { bytes in
        // The first byte has the sign.
        unsafe bytes.dropFirst().reduce(Int64(Int8(bitPattern: bytes.first ?? 0))) { $0 << 8 | Int64($1) }
      }
    }

    func bytes(_ row: Int, _ column: Int) -> [UInt8]? {
      unsafe value(row, column) { unsafe [UInt8]($0) }
    }

    func text(_ row: Int, _ column: Int) -> String? {
      unsafe value(row, column) { unsafe String(decoding: $0, as: UTF8.self) }
    }

    func isTrue(_ row: Int, _ column: Int) -> Bool { integer(row, column) == 1 }
  }

  extension EncodedParameters {
    typealias Pointers<Element> = UnsafeBufferPointer<Element>

    fileprivate func withPointers<Result>(
      _ body: (Pointers<Oid>, Pointers<UnsafePointer<CChar>?>, Pointers<Int32>, Pointers<Int32>) -> Result
    ) -> Result {
      // SAFETY: each value is in the bytes, which are valid while the body runs.
      unsafe bytes.withUnsafeBytes { bytes in
        let values = unsafe ranges.map { range in
          unsafe bytes.baseAddress.map { unsafe ($0 + range.lowerBound).assumingMemoryBound(to: CChar.self) }
        }
        return unsafe types.withUnsafeBufferPointer { types in
          unsafe values.withUnsafeBufferPointer { values in
            unsafe ranges.map { Int32($0.count) }.withUnsafeBufferPointer { lengths in
              unsafe [Int32](repeating: 1, count: ranges.count).withUnsafeBufferPointer { formats in
                unsafe body(types, values, lengths, formats)
              }
            }
          }
        }
      }
    }
  }
#endif
