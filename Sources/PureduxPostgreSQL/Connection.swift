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

  /// A statement, and what it is given.
  struct Statement: Sendable {
    var text: String
    var parameters: [Parameter] = []
  }

  /// The server's settings for a connection: the server itself ends a statement that waits for a lock, or whose caller
  /// no longer waits. The settings are in the startup packet: a statement waits for the lock of a table while it is
  /// planned, and its own settings do not apply by then.
  struct Settings: Sendable {
    /// In milliseconds.
    let lockTimeout: Int
    /// In milliseconds; nil for the role's setting. It does not end the wait of a commit for a standby.
    let statementTimeout: Int?

    /// - Parameters:
    ///   - answerLimit: How long a caller waits for an answer. The server gives up somewhat earlier, so that the caller
    ///     gets its error.
    ///   - limitsStatements: Whether no caller waits longer than that for any statement.
    init(answerLimit: Duration, limitsStatements: Bool) {
      let milliseconds = min(max(0.1, answerLimit / .seconds(1)), 2_000_000) * 1000
      lockTimeout = Int(milliseconds * 0.8)
      statementTimeout = limitsStatements ? Int(milliseconds * 0.9) : nil
    }

    /// The server's warnings about a commit arrive, whatever the role or the connection string sets.
    private var values: [(name: String, value: String)] {
      [("lock_timeout", "\(lockTimeout)"), ("client_min_messages", "warning")]
        + (statementTimeout.map { [("statement_timeout", "\($0)")] } ?? [])
    }

    var options: String { values.map { "-c \($0.name)=\($0.value)" }.joined(separator: " ") }

    /// The condition that the connection lacks at least one of the settings: a pooler may drop some of them.
    var areMissing: String {
      let pairs = values.map { "('\($0.name)', '\($0.value)')" }.joined(separator: ", ")
      return "(SELECT count(*) FROM pg_catalog.pg_settings WHERE (name, setting) IN (\(pairs))) <> \(values.count)"
    }

    /// Applies the settings to the transaction that contains this statement.
    var statement: Statement {
      let calls = values.map { "set_config('\($0.name)', '\($0.value)', true)" }
      return Statement(text: "SELECT " + calls.joined(separator: ", "))
    }
  }

  /// One connection of libpq, through its asynchronous functions: who calls waits at most as long as it says, on a
  /// queue whose threads may wait.
  // SAFETY: the pointer is what libpq has made; it is destroyed by `deinit` only, behind all else. libpq's functions
  // are called by one thread at a time, as a connection is used by the blocks of its session's serial queue only.
  @safe final class Connection: @unchecked Sendable {
    /// What an answer is waited for with.
    struct Patience: Sendable {
      /// How long a caller waits.
      var limit: Duration
      /// Asked each time that such a time has passed without an answer, with the time in all: whether to wait on.
      /// Otherwise the connection is given up.
      var goesOn: (@Sendable (Duration) -> Bool)?
    }

    /// What the server has said beside its answers.
    private final class Notices {
      var isUnreplicated = false
    }

    private let connection: OpaquePointer
    private let notices: Notices
    /// Whose it is.
    let session: ObjectIdentifier
    /// Whether nothing more can be asked.
    private(set) var isBroken = false
    /// Whether the next connection is better made to another server, if there is one: this one does not answer, lets
    /// nobody have a row, or does not have what others had, as an old primary that others have left.
    private(set) var isLeft = false
    /// Which of the statements that were asked for together last the server has not taken, where it is one of them.
    private(set) var refused: Int?
    /// The statements that each transaction begins with; empty if a single statement needs no transaction of its own.
    private var preamble: [Statement] = []
    /// Whether the log has been opened: what a server refuses since then it may take later, as a password was changed,
    /// say, or a right taken away. It was not told about an entry that there never will be one.
    var isOpened = false

    private init(_ connection: OpaquePointer, of session: ObjectIdentifier) {
      unsafe self.connection = connection
      self.session = session
      notices = Notices()
      // SAFETY: libpq calls back with the pointer to the notices within its functions, and not after `PQfinish`, which
      // `deinit` calls while the notices are still held.
      unsafe PQsetNoticeReceiver(
        connection,
        { context, result in
          guard let context = unsafe context, let result = unsafe result,
            let source = unsafe PQresultErrorField(result, diagnostic("R"))
          else { return }
          // A commit that has not waited for its standby, as somebody has cancelled that, counts as done all the same.
          if unsafe strcmp(source, "SyncRepWaitForLSN") == 0 {
            unsafe Unmanaged<Notices>.fromOpaque(context).takeUnretainedValue().isUnreplicated = true
          }
        }, unsafe Unmanaged.passUnretained(notices).toOpaque())
    }

    deinit {
      // SAFETY: the last that is done with it.
      unsafe PQfinish(connection)
    }

    // MARK: Connecting

    /// Throws where libpq cannot read a connection string. What it says of that may have a password in it.
    static func check(_ text: String) throws(LogError) {
      // SAFETY: the options are libpq's, and are freed here; a message is not asked for.
      guard let options = unsafe PQconninfoParse(text, nil) else {
        throw .refused(
          "libpq cannot read the connection string: it is neither postgresql://user@host/database nor "
            + "host=… dbname=…, names an option that there is not, or has a sign that is to be written as %XX.")
      }
      unsafe PQconninfoFree(options)
    }

    /// Connects, and does not wait for longer than a limit. The connection string is read before the defaults of this
    /// library, and each `host` of it is tried, beginning with the one of a number.
    static func open(
      _ text: String, settings: Settings, beginningWith host: Int, for session: ObjectIdentifier, limit: Duration
    ) throws(LogError) -> Connection {
      var parameters = [
        ("target_session_attrs", "read-write"), ("keepalives_idle", "10"), ("keepalives_interval", "5"),
        ("keepalives_count", "3"), ("fallback_application_name", "puredux"), ("dbname", text),
        ("client_encoding", "UTF8"),
      ]
      // libpq reads all options before it finds that this value is invalid, and connects to no server.
      let unconnected = try start(parameters + [("target_session_attrs", "none of these")], for: session)
      if host > 0, let hosts = unconnected.hosts(beginningWith: host) { parameters += hosts }
      let options = [unconnected.options()["options"], settings.options].compactMap(\.self).joined(separator: " ")
      let limit = unconnected.ownLimit ?? limit
      do throws(LogError) {
        let opened = try start(parameters + [("options", options)], for: session)
        try opened.connect(limit: limit)
        return opened
      } catch {
        // A pooler refuses settings in the startup packet: each transaction begins with them.
        guard Failure.isOfStartupParameter(error) else { throw error }
        let opened = try start(parameters, for: session)
        try opened.connect(limit: limit)
        return opened
      }
    }

    private static func start(
      _ parameters: [(name: String, value: String)], for session: ObjectIdentifier
    ) throws(LogError) -> Connection {
      // SAFETY: the copies live until they are freed behind the call, which keeps copies of its own. The arrays end
      // with a null pointer each.
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

    /// What libpq has read of the connection string, its services and the environment.
    private func options() -> [String: String] {
      // SAFETY: the array is libpq's until it is freed here, ends with an option without a keyword, and all of it that
      // is used is copied.
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

    /// The hosts, beginning with the one of a number; nil where there is one only.
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

    /// What the connection string says.
    private var ownLimit: Duration? {
      options()["connect_timeout"].flatMap { Int($0) }.flatMap { $0 > 0 ? .seconds(min($0, 1 << 20)) : nil }
    }

    private func connect(limit: Duration) throws(LogError) {
      let deadline = ContinuousClock.now + limit
      // SAFETY: the connection is there, and its descriptor is asked for anew each time, as libpq says.
      if unsafe PQstatus(connection) == CONNECTION_BAD { throw connectionFailure() }
      var awaited = PGRES_POLLING_WRITING
      while awaited != PGRES_POLLING_OK {
        let isReady = wait(for: awaited == PGRES_POLLING_WRITING ? POLLOUT : POLLIN, until: deadline)
        guard isReady else { throw .unavailable("\(place) has not let anybody in within \(limit).") }
        awaited = unsafe PQconnectPoll(connection)
        if awaited == PGRES_POLLING_FAILED { throw connectionFailure() }
      }
      guard unsafe PQsetnonblocking(connection, 1) == 0 else { throw connectionFailure() }
    }

    /// The server, as it may be shown.
    private var place: String {
      // SAFETY: the texts are the connection's, and are copied.
      let host = unsafe PQhost(connection).map { unsafe String(cString: $0) } ?? ""
      let port = unsafe PQport(connection).map { unsafe String(cString: $0) } ?? ""
      return host.isEmpty ? "The database" : host.hasPrefix("/") ? "The database at \(host)" : "\(host):\(port)"
    }

    /// What the server, or libpq, has said last.
    private var message: String {
      // SAFETY: the text is the connection's until its next call, and is copied.
      unsafe PQerrorMessage(connection).map { unsafe String(cString: $0) }.map(Failure.oneLine) ?? "no reason is known"
    }

    private func connectionFailure() -> LogError {
      isBroken = true
      // SAFETY: the connection is there.
      if unsafe PQconnectionNeedsPassword(connection) == 1 {
        return .refused("\(message). Give a password, in the connection string, in PGPASSWORD, or in a password file.")
      }
      return Failure.connecting(message)
    }

    /// For waiting until something comes while nobody asks.
    var descriptor: Int32 {
      // SAFETY: the connection is there.
      unsafe PQsocket(connection)
    }

    /// False where the time has passed.
    private func wait(for events: Int32, until deadline: ContinuousClock.Instant) -> Bool {
      var waited = pollfd(fd: descriptor, events: Int16(events), revents: 0)
      while true {
        let left = ContinuousClock.now.duration(to: deadline)
        guard left > .zero else { return false }
        let (seconds, attoseconds) = left.components
        let milliseconds = min(seconds, 1000) * 1000 + attoseconds / 1_000_000_000_000_000 + 1
        // SAFETY: one descriptor, in a variable that outlives the call.
        let found = unsafe poll(&waited, 1, Int32(milliseconds))
        if found > 0 || (found < 0 && errno != EINTR) { return true }
      }
    }

    // MARK: Asking

    private static let begin = Statement(text: "BEGIN ISOLATION LEVEL READ COMMITTED")

    /// Finds out whether each transaction has to set its isolation and limits itself. It has to if the role, the
    /// database or the server has another default isolation, or if a pooler has dropped the settings of the startup
    /// packet. In another isolation an append fails if it has waited for another append.
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

    /// Asks one thing, in a transaction of its own.
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
        // The last of them is said behind the commit.
        if let error = next.failure() { (failure, refused) = (error, 0) }
        answer = next
      }
      try checkCommit()
      if let failure { throw found(failure) }
      guard let answer else { throw lost("The database has answered nothing.") }
      return answer
    }

    /// Asks several things in one transaction, in one journey to the server and back: all of them, or none.
    func transaction(_ statements: [Statement], _ patience: Patience) throws(LogError) -> [Answer] {
      (notices.isUnreplicated, refused) = (false, nil)
      // SAFETY: the connection is there; nothing is under way on it, as each call reads all its answers.
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
      // SAFETY: libpq reads the parameters within the call, and copies them.
      let isSent = unsafe parameters.withPointers { types, values, lengths, formats in
        unsafe PQsendQueryParams(
          connection, statement.text, Int32(lengths.count), types.baseAddress, values.baseAddress, lengths.baseAddress,
          formats.baseAddress, 1)
      }
      guard isSent == 1 else { throw lost(message) }
    }

    private func flush(_ patience: Patience) throws(LogError) {
      try wait(patience, for: POLLIN | POLLOUT) { () throws(LogError) in
        // SAFETY: the connection is there.
        let left = unsafe PQflush(connection)
        if left < 0 { throw lost(message) }
        return left == 0
      }
    }

    /// The next answer; nil at the end of those to one statement.
    private func nextAnswer(_ patience: Patience) throws(LogError) -> Answer? {
      // SAFETY: the connection is there. The result is the answer's, which frees it.
      try wait(patience, for: POLLIN) { () throws(LogError) in unsafe PQisBusy(connection) == 0 }
      guard let result = unsafe PQgetResult(connection) else {
        if unsafe PQstatus(connection) == CONNECTION_BAD { throw lost(message) }
        return nil
      }
      return unsafe Answer(result)
    }

    /// Waits until something is done, and takes in what comes meanwhile.
    private func wait(
      _ patience: Patience, for events: Int32, _ isDone: () throws(LogError) -> Bool
    ) throws(LogError) {
      // SAFETY: the connection is there.
      let isEncrypted = unsafe PQsslInUse(connection) == 1
      let begin = ContinuousClock.now
      var deadline = begin + patience.limit
      while try !isDone() {
        // What has been deciphered, and is more than libpq had room for, does not show at the descriptor. Servers
        // before 17 send little enough at a time; later ones, and whoever ends TLS before a server, do not.
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
      // SAFETY: the connection is there.
      guard unsafe PQconsumeInput(connection) == 1 else { throw lost(message) }
    }

    // MARK: Failures

    /// The connection is of no use any more.
    private func lost(_ text: String) -> LogError {
      isBroken = true
      return .unavailable(text)
    }

    /// A server that takes nothing, as it has become a standby, or ends, is left for another one.
    private func found(_ failure: LogError) -> LogError {
      if case .unavailable = failure { isBroken = isBroken || Failure.isOfServer(failure) }
      if Failure.isLocked(failure), hosts(beginningWith: 1) != nil { isLeft = true }
      return isOpened ? failure.passing : failure
    }

    func giveUp() { (isBroken, isLeft) = (true, true) }

    // MARK: Notifications

    /// The texts of the notifications that have come.
    func notifications() throws(LogError) -> [String] {
      try consume()
      var texts: [String] = []
      // SAFETY: each notification is freed here; its text is copied.
      while let notification = unsafe PQnotifies(connection) {
        unsafe texts.append(String(cString: notification.pointee.extra))
        unsafe PQfreemem(notification)
      }
      return texts
    }
  }

  /// The code of a field of an error, which libpq's header has as characters.
  private func diagnostic(_ field: Unicode.Scalar) -> Int32 { Int32(field.value) }

  /// What the server has answered to one statement.
  // SAFETY: the pointer is a result of libpq, which belongs to this object, is not changed, and is freed by `deinit`.
  // It does not leave the queue of its connection.
  @safe final class Answer {
    private let result: OpaquePointer

    fileprivate init(_ result: OpaquePointer) { unsafe self.result = result }

    deinit { unsafe PQclear(result) }

    /// How many rows it has.
    var count: Int { Int(unsafe PQntuples(result)) }

    /// The end of a transaction's answers.
    fileprivate var isSync: Bool { unsafe PQresultStatus(result) == PGRES_PIPELINE_SYNC }

    /// Not looked at, as one before it has failed.
    fileprivate var isSkipped: Bool { unsafe PQresultStatus(result) == PGRES_PIPELINE_ABORTED }

    /// What was done.
    fileprivate var tag: String { unsafe PQcmdStatus(result).map { unsafe String(cString: $0) } ?? "" }

    /// How many rows were changed.
    var changed: Int {
      // SAFETY: the text is the result's, and is copied.
      unsafe PQcmdTuples(result).flatMap { unsafe Int(String(cString: $0)) } ?? 0
    }

    fileprivate func failure() -> LogError? {
      let status = unsafe PQresultStatus(result)
      if status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK { return nil }
      // SAFETY: the texts are the result's, and are copied.
      func field(_ code: Unicode.Scalar) -> String? {
        unsafe PQresultErrorField(result, diagnostic(code)).map { unsafe String(cString: $0) }
      }
      let whole = unsafe PQresultErrorMessage(result).map { unsafe String(cString: $0) } ?? ""
      return Failure.answered(
        code: field("C") ?? "", message: field("M") ?? Failure.oneLine(whole), detail: field("D"), hint: field("H"))
    }

    /// The bytes of a value; none where it is null, or not there.
    private func value<Result>(
      _ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result? {
      // SAFETY: within the result's bounds, which are looked at; the bytes are the result's, for the time of the call.
      let (row, column) = (Int32(row), Int32(column))
      guard unsafe PQntuples(result) > row, unsafe PQnfields(result) > column,
        unsafe PQgetisnull(result, row, column) == 0, let start = unsafe PQgetvalue(result, row, column)
      else { return nil }
      return unsafe body(UnsafeRawBufferPointer(start: start, count: Int(PQgetlength(result, row, column))))
    }

    /// A number, of as many bytes as it has.
    func integer(_ row: Int, _ column: Int) -> Int64? {
      unsafe value(row, column) { bytes in
        // From the sign on.
        unsafe bytes.dropFirst().reduce(Int64(Int8(bitPattern: bytes.first ?? 0))) { $0 << 8 | Int64($1) }
      }
    }

    func bytes(_ row: Int, _ column: Int) -> [UInt8]? {
      unsafe value(row, column) { unsafe [UInt8]($0) }
    }

    func text(_ row: Int, _ column: Int) -> String? {
      unsafe value(row, column) { unsafe String(decoding: $0, as: UTF8.self) }
    }

    /// Whether something is so.
    func isTrue(_ row: Int, _ column: Int) -> Bool { integer(row, column) == 1 }
  }

  extension EncodedParameters {
    typealias Pointers<Element> = UnsafeBufferPointer<Element>

    /// Does something with what libpq wants to have of parameters.
    fileprivate func withPointers<Result>(
      _ body: (Pointers<Oid>, Pointers<UnsafePointer<CChar>?>, Pointers<Int32>, Pointers<Int32>) -> Result
    ) -> Result {
      // SAFETY: each value lies in the bytes, which are there for as long as the body runs.
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
