import Testing

@testable import Programs

/// The correct record of a program that gives three numbers to the root, or to its child.
private func threeCommits(to store: Int = 0) -> Recorded {
  var program = Program()
  program.stores.append(StoreSpec(parent: 0))
  var recorded = Recorded(program: program)
  for number in 1...3 {
    let action = Action(given: number, store: store, spec: ActionSpec(.number(number)))
    recorded.commits.append(action)
    recorded.calls.append(Call(action, Span(10 * number, 10 * number + 1, seen: 0), .enqueued))
  }
  recorded.closings = [Closing(store: 0, isShutdown: true, span: Span(100, 110))]
  return recorded
}

/// The states of a store after each commit.
private func states(_ recorded: Recorded, of store: Int = 0) -> [Snapshot] {
  let model = Model(recorded.program, commits: recorded.commits)
  return (0...recorded.commits.count).map { model.state(of: store, after: $0) }
}

/// A sequence subscribed before everything else.
private func followed(
  _ elements: [Snapshot], of store: Int = 0, _ buffering: Buffering = .unbounded, _ filter: Filter = .none
) -> Followed {
  var followed = Followed(name: "#0", via: Via(store), buffering: buffering, filter: filter, span: Span(1, 2))
  followed.elements = elements
  followed.isWhole = true
  followed.endStamp = 120
  return followed
}

private func failures(_ recorded: Recorded, _ change: (inout Recorded) -> Void = { _ in }) -> [String] {
  var changed = recorded
  change(&changed)
  return Checker.failures(of: changed)
}

@Suite struct CheckerTests {
  @Test func `a correct record is accepted`() {
    for store in 0...1 {
      let right = threeCommits(to: store)
      #expect(failures(right) { $0.followed = [followed(states($0, of: store), of: store)] } == [])
    }
  }

  @Test func `a gap in a sequence is detected`() {
    for place in 0..<4 {
      #expect(
        !failures(threeCommits()) { recorded in
          var elements = states(recorded)
          elements.remove(at: place)
          recorded.followed = [followed(elements)]
        }.isEmpty)
    }
  }

  @Test func `a repeat in a sequence is detected`() {
    for place in 0..<4 {
      #expect(
        !failures(threeCommits()) { recorded in
          var elements = states(recorded)
          elements.insert(elements[place], at: place)
          recorded.followed = [followed(elements)]
        }.isEmpty)
    }
  }

  @Test func `states in another order are detected`() {
    for place in 0..<3 {
      #expect(
        !failures(threeCommits()) { recorded in
          var elements = states(recorded)
          elements.swapAt(place, place + 1)
          recorded.followed = [followed(elements)]
        }.isEmpty)
    }
  }

  @Test func `a wrong state is detected`() {
    for place in 0..<4 {
      #expect(
        !failures(threeCommits()) { recorded in
          var elements = states(recorded)
          elements[place].ledgers[0].number += 1
          recorded.followed = [followed(elements)]
        }.isEmpty)
    }
  }

  @Test func `halves of two commits are detected`() {
    #expect(
      !failures(threeCommits(to: 1)) { recorded in
        var elements = states(recorded, of: 1)
        elements[2].ledgers[1] = elements[1].ledgers[1]
        recorded.followed = [followed(elements, of: 1)]
      }.isEmpty)
  }

  @Test func `a sequence that ends without its store is detected`() {
    #expect(
      !failures(threeCommits()) { recorded in
        recorded.closings = []
        recorded.followed = [followed(states(recorded))]
      }.isEmpty)
  }

  @Test func `a sequence may stop wherever its consumer does`() {
    #expect(
      failures(threeCommits()) { recorded in
        var stopped = followed(Array(states(recorded).prefix(2)))
        stopped.isWhole = false
        recorded.followed = [stopped]
      } == [])
  }

  @Test func `a first element from before an earlier request is detected`() {
    #expect(
      !failures(threeCommits()) { recorded in
        var late = followed(Array(states(recorded)))
        late.span = Span(12, 13)
        recorded.followed = [late]
      }.isEmpty)
  }

  @Test func `a first element from after a later request is detected`() {
    #expect(
      !failures(threeCommits()) { recorded in
        recorded.followed = [followed(Array(states(recorded).dropFirst()))]
      }.isEmpty)
  }

  @Test func `the newest may leave out older ones, and never the last`() {
    let right = threeCommits()
    let all = states(right)
    #expect(failures(right) { $0.followed = [followed([all[0], all[3]], .newest(1))] } == [])
    #expect(failures(right) { $0.followed = [followed([all[2], all[3]], .newest(2))] } == [])
    #expect(!failures(right) { $0.followed = [followed([all[0], all[3]], .newest(2))] }.isEmpty)
    #expect(!failures(right) { $0.followed = [followed([all[0], all[2]], .newest(1))] }.isEmpty)
  }

  @Test func `the oldest may leave out newer ones, and never the first`() {
    let right = threeCommits()
    let all = states(right)
    #expect(failures(right) { $0.followed = [followed([all[0], all[1]], .oldest(2))] } == [])
    #expect(failures(right) { $0.followed = [followed([all[0], all[1], all[3]], .oldest(2))] } == [])
    #expect(!failures(right) { $0.followed = [followed([all[0], all[3]], .oldest(2))] }.isEmpty)
    #expect(!failures(right) { $0.followed = [followed([all[0]], .oldest(2))] }.isEmpty)
  }

  @Test func `a stalled consumer finds exactly the newest`() {
    let right = threeCommits()
    let all = states(right)
    var stalled = followed([all[0], all[2], all[3]], .newest(2))
    stalled.stalledAt = 1
    #expect(failures(right) { $0.followed = [stalled] } == [])
    stalled.elements = all
    #expect(!failures(right) { $0.followed = [stalled] }.isEmpty)
  }

  @Test func `a duplicate that a filter has to leave out is detected`() {
    var right = threeCommits()
    right.commits[2].change = .number(2)
    right.calls[2].action.change = .number(2)
    let all = states(right)
    #expect(failures(right) { $0.followed = [followed(Array(all.prefix(3)), .unbounded, .number)] } == [])
    #expect(!failures(right) { $0.followed = [followed(all, .unbounded, .number)] }.isEmpty)
    #expect(!failures(right) { $0.followed = [followed(Array(all.prefix(2)), .unbounded, .number)] }.isEmpty)
  }

  @Test func `an accepted action that is lost is detected`() {
    #expect(!failures(threeCommits()) { $0.commits.removeLast() }.isEmpty)
  }

  @Test func `an action that is committed twice is detected`() {
    #expect(!failures(threeCommits()) { $0.commits.append($0.commits[0]) }.isEmpty)
    #expect(!failures(threeCommits()) { $0.commits.insert($0.commits[0], at: 0) }.isEmpty)
  }

  @Test func `an action that nobody gave is detected`() {
    #expect(
      !failures(threeCommits()) { $0.commits.append(Action(given: 9, store: 0, spec: ActionSpec())) }.isEmpty)
  }

  @Test func `an action that was refused and committed is detected`() {
    #expect(!failures(threeCommits()) { $0.calls[2].outcome = .terminated }.isEmpty)
  }

  @Test func `an action that is refused by an open store is detected`() {
    #expect(
      !failures(threeCommits()) { recorded in
        recorded.commits.removeLast()
        recorded.calls[2].outcome = .terminated
      }.isEmpty)
  }

  @Test func `an action that is accepted after the shutdown is detected`() {
    #expect(!failures(threeCommits()) { $0.calls[2].span = Span(120, 121) }.isEmpty)
  }

  @Test func `calls of one task in another order are detected`() {
    #expect(!failures(threeCommits()) { $0.commits.swapAt(0, 1) }.isEmpty)
  }

  @Test func `a read from before an earlier request of its task is detected`() {
    let right = threeCommits()
    let all = states(right)
    #expect(failures(right) { $0.reads = [StateRead(Via(0), Span(12, 13), .read(all[1]))] } == [])
    #expect(!failures(right) { $0.reads = [StateRead(Via(0), Span(12, 13), .read(all[0]))] }.isEmpty)
    #expect(!failures(right) { $0.reads = [StateRead(Via(0), Span(12, 13), .read(all[2]))] }.isEmpty)
  }

  @Test func `a read that goes back is detected`() {
    let right = threeCommits()
    let all = states(right)
    #expect(
      !failures(right) { recorded in
        recorded.calls[1].span = Span(10, 60)
        recorded.reads = [
          StateRead(Via(0), Span(12, 13), .read(all[2])), StateRead(Via(0), Span(14, 15), .read(all[1])),
        ]
      }.isEmpty)
  }

  @Test func `a state that was read at another commit than the sent one is detected`() {
    let right = threeCommits()
    let all = states(right)
    #expect(failures(right) { $0.calls[1].outcome = .read(all[2]) } == [])
    #expect(!failures(right) { $0.calls[1].outcome = .read(all[3]) }.isEmpty)
  }

  @Test func `an interceptor that misses an action, or takes them in another order, is detected`() {
    var right = threeCommits()
    right.program.interceptor = InterceptorSpec()
    right.interceptions = [Interception(generation: 0, spec: InterceptorSpec(), span: Span(0, 1))]
    right.starts = (1...3).map { Start(generation: 0, given: $0, copy: 0) }
    right.works = [Work(store: 0, given: 1, copy: 0, begin: 50, end: 51)]
    for place in right.commits.indices {
      right.commits[place].rule = place == 0 ? 0 : 1
      right.calls[place].action.rule = place == 0 ? 0 : 1
    }
    right.interceptions[0].spec.divisor = 2
    #expect(failures(right) == [])
    #expect(!failures(right) { $0.starts.removeLast() }.isEmpty)
    #expect(!failures(right) { $0.starts.swapAt(0, 1) }.isEmpty)
    #expect(!failures(right) { $0.starts.append($0.starts[2]) }.isEmpty)
    #expect(
      !failures(right) {
        $0.closings[0].isFinishing = true
        $0.works = []
      }.isEmpty)
    #expect(failures(right) { $0.works = [] } == [], "it was cancelled before it began")
    #expect(!failures(right) { $0.works.append($0.works[0]) }.isEmpty)
    #expect(!failures(right) { $0.works[0].end = 111 }.isEmpty)
    #expect(
      failures(right) {
        $0.closings[0].isByInterceptor = true
        $0.works[0].end = 111
      } == [], "a shutdown by an interceptor waits for no task of its own tree")
  }

  @Test func `an observer that is called after its cancellation is detected`() {
    var right = threeCommits()
    var observed = Observed(number: 0, observing: Observing(key: 0, via: Via(0)), via: Via(0), span: Span(1, 2))
    observed.via.views = [.marked(0)]
    observed.cuts = [Span(40, 41)]
    right.observed = [observed]
    let tagged = [View.marked(0)]
    right.observerCalls = states(right).prefix(2).enumerated().map { number, state in
      ObserverCall(subscription: 0, state: tagged(state) ?? state, begin: 20 + number, end: 21 + number, isDead: false)
    }
    #expect(failures(right) == [])
    #expect(failures(right) { $0.observerCalls[1].begin = 42 } == [], "it was just being called")
    #expect(
      !failures(right) {
        $0.observerCalls[0].end = 42
        $0.observerCalls[1].begin = 43
      }.isEmpty)
    #expect(
      !failures(right) {
        $0.observerCalls.swapAt(0, 1); $0.observerCalls[0].begin = 1
      }.isEmpty)
    #expect(!failures(right) { $0.observerCalls[0].isDead = true }.isEmpty)
  }
}
