#if PostgreSQL
  import CPostgreSQLRaw
  import Foundation

  /// Raw libpq, for comparison.
  // SAFETY: one thread at a time uses it.
  @safe final class RawPostgreSQL: @unchecked Sendable {
    private let connection: OpaquePointer

    init(_ address: String) throws {
      // SAFETY: the string lives within the call. The result is checked, and freed by `deinit`.
      guard let connection = unsafe PQconnectdb(address) else { throw PostgreSQLNode.Problem(text: "no memory") }
      unsafe self.connection = connection
      guard unsafe PQstatus(connection) == CONNECTION_OK else { throw PostgreSQLNode.Problem(text: message) }
    }

    deinit {
      // SAFETY: this is the last use of the pointer.
      unsafe PQfinish(connection)
    }

    private var message: String {
      // SAFETY: the text is copied.
      unsafe PQerrorMessage(connection).map { unsafe String(cString: $0) } ?? ""
    }

    /// Runs a statement in its own transaction, and returns its first value.
    @discardableResult func run(_ text: String, _ number: Int64? = nil, _ bytes: [UInt8] = []) throws -> String {
      var types: [Oid] = number == nil ? [] : [20, 17]
      let big = (number ?? 0).bigEndian
      // SAFETY: all pointees outlive the call, which copies them. The result is freed.
      let result = unsafe withUnsafeBytes(of: big) { number in
        unsafe bytes.withUnsafeBytes { bytes in
          var values = unsafe [
            number.baseAddress?.assumingMemoryBound(to: CChar.self),
            bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
          ]
          var lengths = [Int32(8), Int32(bytes.count)]
          var formats = [Int32(1), 1]
          return unsafe PQexecParams(
            connection, text, Int32(types.count), &types, &values, &lengths, &formats, 0)
        }
      }
      defer { unsafe PQclear(result) }
      let status = unsafe PQresultStatus(result)
      guard status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK else { throw PostgreSQLNode.Problem(text: message) }
      guard unsafe PQntuples(result) > 0, let value = unsafe PQgetvalue(result, 0, 0) else { return "" }
      return unsafe String(cString: value)
    }

    /// Reads the output of `COPY … TO STDOUT`, and returns the number of its messages.
    func copy(_ text: String) throws -> Int {
      // SAFETY: the result is freed, and so is each piece.
      let result = unsafe PQexec(connection, text)
      let status = unsafe PQresultStatus(result)
      unsafe PQclear(result)
      guard status == PGRES_COPY_OUT else { throw PostgreSQLNode.Problem(text: message) }
      var count = 0
      var piece: UnsafeMutablePointer<CChar>?
      while unsafe PQgetCopyData(connection, &piece, 0) > 0 {
        count += 1
        unsafe PQfreemem(piece)
      }
      while let rest = unsafe PQgetResult(connection) { unsafe PQclear(rest) }
      return count
    }
  }
#endif
