BEGIN;
CREATE SCHEMA IF NOT EXISTS "puredux";
CREATE TABLE "puredux".about (version bigint NOT NULL, identity text NOT NULL);
CREATE TABLE "puredux".trees (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key bytea NOT NULL UNIQUE,
  head bigint NOT NULL DEFAULT 0, first bigint NOT NULL DEFAULT 1) WITH (fillfactor = 50);
CREATE TABLE "puredux".entries (
  tree bigint NOT NULL, position bigint NOT NULL, entry bytea NOT NULL, PRIMARY KEY (tree, position));
CREATE TABLE "puredux".removals (tree bigint PRIMARY KEY, cleared boolean NOT NULL DEFAULT false);
CREATE INDEX removals_rest ON "puredux".removals (tree) WHERE NOT cleared;
CREATE TABLE "puredux".snapshots (
  tree bigint PRIMARY KEY, position bigint NOT NULL, name text NOT NULL, parts bigint NOT NULL,
  bytes bigint NOT NULL);
CREATE TABLE "puredux".snapshot_parts (
  tree bigint NOT NULL, position bigint NOT NULL, name text NOT NULL, part bigint NOT NULL,
  bytes bytea NOT NULL, PRIMARY KEY (tree, position, name, part));
CREATE TABLE "puredux".summaries (tree bigint PRIMARY KEY, position bigint NOT NULL, summary bytea NOT NULL);
CREATE VIEW "puredux".contents AS
SELECT encode(trees.key, 'escape') AS key, entries.position, octet_length(entries.entry) AS bytes, actions.text
FROM "puredux".trees AS trees JOIN "puredux".entries AS entries ON entries.tree = trees.id
LEFT JOIN LATERAL (
  WITH RECURSIVE header(size) AS (
    SELECT CASE
      WHEN octet_length(entry) < 5 OR substring(entry, 1, 3) <> '\x504458'::bytea THEN NULL
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
  SELECT string_agg(replace(encode(substring(entry, start + 1, size), 'escape'), '\\', '\'), ' ' ORDER BY start)
  FROM action
) AS actions(text) ON true;
INSERT INTO "puredux".about (version, identity) VALUES (1, gen_random_uuid()::text);
GRANT USAGE ON SCHEMA "puredux" TO "boards";
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "puredux" TO "boards";
COMMIT;
