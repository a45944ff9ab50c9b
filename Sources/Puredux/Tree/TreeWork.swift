@usableFromInline struct TreeWork: Sendable {
  @usableFromInline let begin: @Sendable (isolated any TreeIsolation) -> Void
  @usableFromInline let end: @Sendable (isolated any TreeIsolation) -> Void

  @usableFromInline init(
    begin: @escaping @Sendable (isolated any TreeIsolation) -> Void,
    end: @escaping @Sendable (isolated any TreeIsolation) -> Void
  ) {
    self.begin = begin
    self.end = end
  }
}
