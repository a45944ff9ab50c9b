#if PostgreSQL
  import PureduxLog

  /// The tables of the logs, in a schema of their own.
  ///
  ///     about            the tables' version, and a random text that identifies them
  ///     trees            each tree's number, key, head and first entry
  ///     entries          the entries, by tree and position
  ///     removals         the numbers of removed trees, and whether their data is deleted
  ///     snapshots        the manifest of each tree's newest snapshot
  ///     snapshot_parts   the snapshots' parts
  ///     summaries        the trees' summaries
  ///     contents         a readable view
  struct Schema: Sendable {
    static let version: Int64 = 1
    /// In bytes. An index takes at most about 2,700.
    static let keyLimit = 2000

    private let name: String
    private let prefix: String

    init(_ name: String) throws(LogError) {
      guard !name.isEmpty, name.utf8.count <= 63, !name.utf8.contains(0) else {
        throw .refused("A schema's name has 1 to 63 bytes: \(name)")
      }
      self.name = name
      prefix = Self.quoted(name) + "."
    }

    private static func quoted(_ name: String) -> String {
      "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }

    /// Replaces `$.` by the schema.
    func statement(_ text: String, _ parameters: Parameter...) -> Statement { statement(text, parameters) }

    func statement(_ text: String, _ parameters: [Parameter]) -> Statement {
      Statement(text: filled(text), parameters: parameters)
    }

    /// Inserts a row for each key of a query. A sequence restored from an older backup would repeat numbers.
    static func newTrees(_ key: String) -> String {
      "INSERT INTO $.trees (id, key) OVERRIDING SYSTEM VALUE SELECT ("
        + "('x' || left(gen_random_uuid()::text, 8) || right(gen_random_uuid()::text, 7))::bit(60)::bigint), \(key)"
    }

    private func filled(_ text: String) -> String {
      text.split(separator: "$.", omittingEmptySubsequences: false).joined(separator: prefix)
    }

    // MARK: Creating the tables

    /// Each version's changes to the previous version's tables.
    private static let steps = [
      [
        """
        CREATE TABLE $.about (version bigint NOT NULL, identity text NOT NULL)
        """,
        """
        CREATE TABLE $.trees (
          id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key bytea NOT NULL UNIQUE,
          head bigint NOT NULL DEFAULT 0, first bigint NOT NULL DEFAULT 1) WITH (fillfactor = 50)
        """,
        """
        CREATE TABLE $.entries (
          tree bigint NOT NULL, position bigint NOT NULL, entry bytea NOT NULL, PRIMARY KEY (tree, position))
        """,
        """
        CREATE TABLE $.removals (tree bigint PRIMARY KEY, cleared boolean NOT NULL DEFAULT false)
        """,
        """
        CREATE INDEX removals_rest ON $.removals (tree) WHERE NOT cleared
        """,
        """
        CREATE TABLE $.snapshots (
          tree bigint PRIMARY KEY, position bigint NOT NULL, name text NOT NULL, parts bigint NOT NULL,
          bytes bigint NOT NULL)
        """,
        """
        CREATE TABLE $.snapshot_parts (
          tree bigint NOT NULL, position bigint NOT NULL, name text NOT NULL, part bigint NOT NULL,
          bytes bytea NOT NULL, PRIMARY KEY (tree, position, name, part))
        """,
        """
        CREATE TABLE $.summaries (tree bigint PRIMARY KEY, position bigint NOT NULL, summary bytea NOT NULL)
        """,
        """
        CREATE VIEW $.contents AS
        SELECT encode(trees.key, 'escape') AS key, entries.position, octet_length(entries.entry) AS bytes, actions.text
        FROM $.trees AS trees JOIN $.entries AS entries ON entries.tree = trees.id
        LEFT JOIN LATERAL (
          WITH RECURSIVE header(size) AS (
            SELECT CASE
              WHEN octet_length(entry) < 5 OR substring(entry, 1, 3) <> '\\x504458'::bytea THEN NULL
              WHEN get_byte(entry, 3) = 1 THEN 52
              WHEN get_byte(entry, 3) = 2 AND get_byte(entry, 4) = 0 THEN 57
              WHEN get_byte(entry, 3) = 2 AND get_byte(entry, 4) = 2 THEN 62
            END
          ), action(start, size) AS (
            SELECT size + 4, get_byte(entry, size) + 256 * get_byte(entry, size + 1)
              + 65536 * get_byte(entry, size + 2) + 16777216 * (get_byte(entry, size + 3) & 127)
            FROM header WHERE size + 4 <= octet_length(entry)
            UNION ALL
            SELECT start + size + 4, get_byte(entry, start + size) + 256 * get_byte(entry, start + size + 1)
              + 65536 * get_byte(entry, start + size + 2) + 16777216 * (get_byte(entry, start + size + 3) & 127)
            FROM action WHERE start + size + 4 <= octet_length(entry)
          )
          SELECT string_agg(replace(encode(substring(entry, start + 1, size), 'escape'), '\\\\', '\\'), ' ' ORDER BY start)
          FROM action
        ) AS actions(text) ON true
        """,
      ]
    ]

    private var lock: Statement {
      statement("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", .text("puredux " + name))
    }

    private func making(from version: Int64) -> [Statement] {
      var statements = Self.steps.dropFirst(Int(version)).joined().map { statement($0) }
      if version == 0 {
        statements.append(
          statement("INSERT INTO $.about (version, identity) VALUES (\(Self.version), gen_random_uuid()::text)"))
      } else {
        statements.append(statement("UPDATE $.about SET version = \(Self.version)"))
      }
      return statements
    }

    /// Creates or upgrades the tables. Returns their identity.
    func prepare(
      _ connection: Connection, makes: Bool, _ patience: Connection.Patience
    ) throws(LogError) -> String {
      // Another client may create the tables meanwhile.
      for _ in 0..<2 {
        var older: Int64?
        switch try found(connection, patience) {
        case .tables(Self.version, let identity): return identity
        case .tables(let version, _): older = version
        case .nothing: break
        case .others(let names):
          throw .refused(
            "In the schema \(name), these are not this library's, or its table about is gone: "
              + "\(names.joined(separator: ", ")). Name another schema in the options: a log needs one of its own.")
        }
        let version = older ?? 0
        guard version < Self.version else {
          throw .refused(
            "The tables in the schema \(name) are of version \(version), which a newer version of this library has "
              + "made; this one knows version \(Self.version).")
        }
        guard makes else {
          throw .refused(
            older == nil
              ? "There are no tables in the schema \(name), and they are not to be made."
              : "The tables in the schema \(name) are of version \(version), and are not to be changed.")
        }
        // The statements' literals are written for this setting.
        var statements = [lock, Statement(text: "SET LOCAL standard_conforming_strings = on")]
        if version == 0, try !isSchemaThere(connection, patience) {
          statements.append(Statement(text: "CREATE SCHEMA IF NOT EXISTS \(Self.quoted(name))"))
        }
        do throws(LogError) {
          _ = try connection.transaction(statements + making(from: version), patience)
        } catch {
          guard case .tables(Self.version, _) = try found(connection, patience) else { throw error }
        }
      }
      throw .unavailable("The tables in the schema \(name) are being created or removed by other clients.")
    }

    private func isSchemaThere(_ connection: Connection, _ patience: Connection.Patience) throws(LogError) -> Bool {
      let text = "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = $1"
      return try connection.query(statement(text, .text(name)), patience).integer(0, 0) == 1
    }

    private enum Found {
      case nothing
      case tables(version: Int64, identity: String)
      case others([String])
    }

    private func found(_ connection: Connection, _ patience: Connection.Patience) throws(LogError) -> Found {
      let relations = try connection.query(
        statement(
          """
          SELECT c.relname::text, (c.relkind = 'r' AND 2 = (
            SELECT count(*) FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0
              AND NOT a.attisdropped AND (a.attname, a.atttypid) IN (
                ('version', 'pg_catalog.int8'::pg_catalog.regtype), ('identity', 'pg_catalog.text'::pg_catalog.regtype))))
          FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
          WHERE n.nspname = $1 AND c.relname::text = ANY (string_to_array($2, ' ')) ORDER BY c.relname::text
          """, .text(name), .text(Self.relations.joined(separator: " "))), patience)
      guard let row = (0..<relations.count).first(where: { relations.text($0, 0) == "about" }) else {
        let names = (0..<relations.count).compactMap { relations.text($0, 0) }
        return names.isEmpty ? .nothing : .others(names)
      }
      guard relations.isTrue(row, 1) else { return .others(["about"]) }
      let about = try connection.query(statement("SELECT version, identity FROM $.about"), patience)
      guard about.count == 1, let version = about.integer(0, 0), let identity = about.text(0, 1) else {
        throw .damaged(position: 0, "The table about in the schema \(name) has \(about.count) rows, and must have one.")
      }
      return .tables(version: version, identity: identity)
    }

    /// `about` is created with all others, and is the library's if it has its columns.
    private static let relations = [
      "about", "trees", "entries", "removals", "removals_rest", "snapshots", "snapshot_parts", "summaries", "contents",
    ]

    func identity(_ connection: Connection, _ patience: Connection.Patience) throws(LogError) -> String {
      guard case .tables(_, let identity) = try found(connection, patience) else {
        throw .damaged(position: 0, "The tables in the schema \(name) are gone.")
      }
      return identity
    }

    func script(for role: String) -> String {
      let role = Self.quoted(role)
      let schema = Self.quoted(name)
      let statements =
        ["BEGIN", "CREATE SCHEMA IF NOT EXISTS \(schema)"] + making(from: 0).map(\.text) + [
          "GRANT USAGE ON SCHEMA \(schema) TO \(role)",
          "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \(schema) TO \(role)", "COMMIT",
        ]
      return statements.map { $0 + ";\n" }.joined()
    }
  }
#endif
