import Testing

@testable import Puredux

extension RejectionReason {
  fileprivate static let full: Self = "The room is full."
}

@Suite("The reason of a rejection")
struct RejectionTests {
  /// Makes the text at run time, so that no part of it is a literal.
  private func text(_ number: Int) -> String { "The room has \(number) seats." }

  @Test("reasons are equal, and hash alike, if their texts are, whether they are literals or not")
  func equality() {
    let made: RejectionReason = "The room has \(text(4).count - 13) seats."
    #expect(made == "The room has 8 seats.")
    #expect(made == RejectionReason(text(8)))
    #expect(RejectionReason(text(8)) != RejectionReason(text(9)))
    #expect(made != .full)
    #expect(RejectionReason.full == RejectionReason(["The", "room", "is", "full."].joined(separator: " ")))
    #expect(Set([made, RejectionReason(text(8)), "The room has 8 seats.", .full]).count == 2)
    #expect(made.description == "The room has 8 seats.")
    #expect("\(RejectionReason.full)" == "The room is full.")
    #expect(RejectionReason("\([1, 2]), \(Int?.none as Any) and \(made)").description == "[1, 2], nil and \(text(8))")
    #expect(RejectionReason(String()).description.isEmpty)
    #expect(RejectionReason(String()) == "")
  }

  @Test("a store's error is a plain value")
  func plain() {
    #expect(MemoryLayout<StoreError>.size <= 24)
    #expect(_isPOD(StoreError.self))
  }

  @Test("the newest texts are kept, including those that are used again")
  func bounded() {
    var texts = RejectionReason.Texts(limit: 10_000)
    func digest(_ text: String) -> RejectionReason.Digest { RejectionReason.Digest(of: text) }
    for number in 0..<1_000 {
      texts.keep(text(number), for: digest(text(number)))
      texts.keep("often", for: digest("often"))
      #expect(texts[digest(text(number))] == text(number))
      #expect(texts[digest(text(max(0, number - 30)))] != nil, "the last 5,000 bytes are there")
      #expect(texts[digest("often")] == "often")
    }
    #expect(texts[digest(text(0))] == nil)
    #expect(texts.count <= 100)
    let long = String(repeating: "x", count: 20_000)
    texts.keep(long, for: digest(long))
    #expect(texts[digest(long)] == long, "even one that is longer than all may be")
    #expect(texts[digest(text(999))] == text(999))
    texts.keep("next", for: digest("next"))
    texts.keep(text(1_000), for: digest(text(1_000)))
    #expect(texts[digest(long)] == long)
    #expect(texts[digest(text(999))] == nil)
  }

  @Test("many tasks make reasons at once, and each reads its own")
  func together() async {
    await withTaskGroup(of: Bool.self) { group in
      for task in 0..<8 {
        group.addTask {
          (0..<200).allSatisfy { RejectionReason("Of \(task): \($0).").description == "Of \(task): \($0)." }
        }
      }
      for await isRight in group { #expect(isRight) }
    }
  }

  /// A store whose users catch only some errors: optimized code, too, compiles and behaves correctly.
  private let room = RootStore<Int, Int>(
    initialState: 0,
    middleware: [
      .guarding { action, count in
        if action == 0 { RejectionReason.full } else if action < 0 { "\(action) is less than \(count)." } else { nil }
      }
    ]
  ) { $0 += $1 }

  @Test("some of a store's errors can be caught", arguments: [false, true])
  func caughtInPart(isShutDown: Bool) async throws {
    if isShutDown { await room.shutdown() }
    #expect(try await expectedOrRejected { () throws(StoreError) in try await room.send(1) } == isShutDown)
    for action in [-1, 0, 1] {
      let error = await error(of: action)
      switch (isShutDown, action) {
      case (true, _): #expect(error == .terminated)
      case (false, -1): #expect(error == .rejected(reason: "-1 is less than 1."))
      case (false, 0): #expect(error == .rejected(reason: .full))
      default: #expect(error == nil)
      }
      #expect(await typed(action) == error)
      #expect(await isolated(action) == error)
      #expect(await onMain(action) == error)
      #expect(await nonsending(action) == error)
      #expect(await ofTask(action) == error)
    }
  }

  /// Whether the caught error is the end of the store.
  private func expectedOrRejected(_ body: () async throws(StoreError) -> Void) async throws -> Bool {
    do {
      try await body()
      return false
    } catch StoreError.terminated {
      return true
    }
  }

  private func error(of action: Int) async -> StoreError? {
    do {
      try await room.send(action)
      return nil
    } catch StoreError.rejected(.full) {
      return .rejected(reason: .full)
    } catch StoreError.rejected(let reason?) where reason.description.hasPrefix("-") {
      return .rejected(reason: reason)
    } catch {
      return error
    }
  }

  private func passing(_ action: Int) async throws(StoreError) -> Int {
    do throws(StoreError) {
      return try await room.send(action) { $0 }
    } catch .terminated {
      throw .terminated
    } catch .stopped(.diverged(let position)) {
      return Int(position)
    }
  }

  private func typed(_ action: Int) async -> StoreError? {
    do throws(StoreError) {
      _ = try await passing(action)
      return nil
    } catch .rejected(.full) {
      return .rejected(reason: .full)
    } catch .rejected(let reason) {
      return .rejected(reason: reason)
    } catch {
      return error
    }
  }

  private func isolated(_ action: Int, isolation: isolated (any Actor)? = #isolation) async -> StoreError? {
    func passing() async throws(StoreError) {
      do throws(StoreError) { try await room.send(action) } catch .unmapped, .rejected(nil) {}
    }
    do throws(StoreError) { try await passing() } catch { return error }
    return nil
  }

  @MainActor private func onMain(_ action: Int) async -> StoreError? {
    do {
      do { try await room.send(action) } catch StoreError.rejected(.full) { return .rejected(reason: .full) }
      return nil
    } catch StoreError.terminated {
      return .terminated
    } catch {
      return error
    }
  }

  nonisolated(nonsending) private func nonsending(_ action: Int) async -> StoreError? {
    let result: Result<Void, StoreError>
    do throws(StoreError) { result = .success(try await room.send(action)) } catch { result = .failure(error) }
    func got() throws(StoreError) {
      do throws(StoreError) { try result.get() } catch .outcomeUnknown {}
    }
    do throws(StoreError) { try got() } catch { return error }
    return nil
  }

  private func ofTask(_ action: Int) async -> StoreError? {
    let task = Task { [room] in
      do { try await room.send(action) } catch StoreError.stateUnavailable {}
    }
    do {
      try await task.value
      return nil
    } catch let error as StoreError {
      return error
    } catch {
      return nil
    }
  }
}
