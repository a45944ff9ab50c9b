import Puredux
import PureduxTestSupport
import PureduxUI
import Testing

/// A caller never leaves its actor: after each call to a store, and in a body that a store calls, code runs on the
/// caller's actor.
///
/// The compiler ensures this in ways that depend on sizes, inlining and specialization. It has had bugs in it, mostly
/// in release builds: run these tests there, too.
@Suite(.timeLimit(.minutes(15))) struct IsolationTests {
  /// Calls that are specialized for the type of their state.
  struct Specialized: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let run: @MainActor @Sendable (StoreExecutor, Sheet) async -> Void
    init(_ name: String, _ run: @escaping @MainActor @Sendable (StoreExecutor, Sheet) async -> Void) {
      testDescription = name
      self.run = run
    }
  }

  struct Concrete: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let run: @Sendable (StoreExecutor, Sheet, Resident) async -> Void
    init(_ name: String, _ run: @escaping @Sendable (StoreExecutor, Sheet, Resident) async -> Void) {
      testDescription = name
      self.run = run
    }
  }

  static let specialized: [Specialized] = [
    Specialized("6 words") { await visitOnMain(Scene(Words6(), on: $0), $1) },
    Specialized("8 words") { await visitOnMain(Scene(Words8(), on: $0), $1) },
    Specialized("4 strings") { await visitOnMain(Scene(Texts4(), on: $0), $1) },
    Specialized("8 words, given the isolation") { await visitIsolated(Scene(Words8(), on: $0), $1) },
    Specialized("8 words, staying") { await visitNonsending(Scene(Words8(), on: $0), $1) },
    Specialized("1 word, inlined") { await ask(Scene(Words1(), on: $0), $1) },
    Specialized("2 words, inlined") { await ask(Scene(Words2(), on: $0), $1) },
    Specialized("3 words, inlined") { await ask(Scene(Words3(), on: $0), $1) },
    Specialized("4 words, inlined") { await ask(Scene(Words4(), on: $0), $1) },
    Specialized("5 words, inlined") { await ask(Scene(Words5(), on: $0), $1) },
    Specialized("6 words, inlined") { await ask(Scene(Words6(), on: $0), $1) },
    Specialized("7 words, inlined") { await ask(Scene(Words7(), on: $0), $1) },
    Specialized("8 words, inlined") { await ask(Scene(Words8(), on: $0), $1) },
    Specialized("12 words, inlined") { await ask(Scene(Words12(), on: $0), $1) },
    Specialized("16 words, inlined") { await ask(Scene(Words16(), on: $0), $1) },
    Specialized("32 words, inlined") { await ask(Scene(Words32(), on: $0), $1) },
    Specialized("a string, inlined") { await ask(Scene("text", on: $0), $1) },
    Specialized("4 strings, inlined") { await ask(Scene(Texts4(), on: $0), $1) },
    Specialized("references, inlined") { await ask(Scene(Mixed8(), on: $0), $1) },
    Specialized("an existential, inlined") { await ask(Scene<any Shape>(Large(), on: $0), $1) },
    Specialized("an optional, inlined") { await ask(Scene<Words8?>(Words8(), on: $0), $1) },
    Specialized("a generic, inlined") { await ask(Scene(Three(a: Texts2(), b: Texts2(), c: Texts2()), on: $0), $1) },
    Specialized("1 word, out of line") { await askOutOfLine(Scene(Words1(), on: $0), $1) },
    Specialized("2 words, out of line") { await askOutOfLine(Scene(Words2(), on: $0), $1) },
    Specialized("3 words, out of line") { await askOutOfLine(Scene(Words3(), on: $0), $1) },
    Specialized("4 words, out of line") { await askOutOfLine(Scene(Words4(), on: $0), $1) },
    Specialized("5 words, out of line") { await askOutOfLine(Scene(Words5(), on: $0), $1) },
    Specialized("6 words, out of line") { await askOutOfLine(Scene(Words6(), on: $0), $1) },
    Specialized("7 words, out of line") { await askOutOfLine(Scene(Words7(), on: $0), $1) },
    Specialized("8 words, out of line") { await askOutOfLine(Scene(Words8(), on: $0), $1) },
    Specialized("12 words, out of line") { await askOutOfLine(Scene(Words12(), on: $0), $1) },
    Specialized("16 words, out of line") { await askOutOfLine(Scene(Words16(), on: $0), $1) },
    Specialized("32 words, out of line") { await askOutOfLine(Scene(Words32(), on: $0), $1) },
    Specialized("a string, out of line") { await askOutOfLine(Scene("text", on: $0), $1) },
    Specialized("4 strings, out of line") { await askOutOfLine(Scene(Texts4(), on: $0), $1) },
    Specialized("references, out of line") { await askOutOfLine(Scene(Mixed8(), on: $0), $1) },
    Specialized("an existential, out of line") { await askOutOfLine(Scene<any Shape>(Large(), on: $0), $1) },
    Specialized("an optional, out of line") { await askOutOfLine(Scene<Words8?>(Words8(), on: $0), $1) },
    Specialized("a generic, out of line") {
      await askOutOfLine(Scene(Three(a: Texts2(), b: Texts2(), c: Texts2()), on: $0), $1)
    },
    Specialized("6 words, nothing generic") { await askSix(on: $0, $1) },
    Specialized("8 words, nothing generic") { await askEight(on: $0, $1) },
    Specialized("16 words, nothing generic") { await askSixteen(on: $0, $1) },
    Specialized("a string, nothing generic") { await askText(on: $0, $1) },
    Specialized("an existential, nothing generic") { await askExistential(on: $0, $1) },
    Specialized("an optional, nothing generic") { await askOptional(on: $0, $1) },
    Specialized("8 words, in a closure", askEightInClosure),
  ]

  static let inActor: [Concrete] = [
    Concrete("8 words") { await $2.visit(Scene(Words8(), on: $0), $1) },
    Concrete("8 words, nothing generic") { await $2.askEight(on: $0, $1) },
    Concrete("16 words, nothing generic") { await $2.askSixteen(on: $0, $1) },
    Concrete("an existential, nothing generic") { await $2.askExistential(on: $0, $1) },
  ]

  @MainActor @Test func `the actor that code runs on can be detected`() async {
    let resident = Resident()
    #expect(MainQueue.isCurrent && !resident.executor.isCurrent)
    await resident.expectHere()
    await expectNowhere(resident)
    #expect(MainQueue.isCurrent)
  }

  @MainActor @Test(arguments: specialized, Ground.allCases)
  func `specialized code on the main actor stays there`(calls: Specialized, ground: Ground) async {
    let sheet = Sheet.mainActor
    await calls.run(ground.executor(), sheet)
    expectAtHome(sheet)
  }

  @Test(arguments: inActor, Ground.allCases)
  func `specialized code in an actor stays there`(calls: Concrete, ground: Ground) async {
    let resident = Resident()
    let sheet = resident.sheet
    await calls.run(ground.executor(of: resident.executor), sheet, resident)
    expectAtHome(sheet)
  }

  @MainActor @Test(arguments: Samples.all, Ground.allCases)
  func `generic code on the main actor stays there`(sample: any Sample, ground: Ground) async {
    func visit<Some: Sample>(_ sample: Some) async {
      let sheet = Sheet.mainActor
      await visitOnMain(Scene(sample.state, on: ground.executor()), sheet)
      await visitIsolated(Scene(sample.state, on: ground.executor()), sheet)
      await visitNonsending(Scene(sample.state, on: ground.executor()), sheet)
      expectAtHome(sheet)
    }
    await visit(sample)
  }

  @Test(arguments: Samples.all, Ground.allCases)
  func `generic code in an actor stays there`(sample: any Sample, ground: Ground) async {
    func visit<Some: Sample>(_ sample: Some) async {
      let resident = Resident()
      let sheet = resident.sheet
      let executor = ground.executor(of: resident.executor)
      await resident.visit(Scene(sample.state, on: executor), sheet)
      await resident.visitByOthers(Scene(sample.state, on: executor), sheet)
      expectAtHome(sheet)
    }
    await visit(sample)
  }

  @Test func `code in an actor on the thread pool stays there`() async {
    await #expect(processExitsWith: .success) {
      for ground in Ground.allCases {
        let actor = Inhabitant()
        await actor.visit(Scene(Words1(), on: ground.executor()), actor.sheet)
        await actor.visit(Scene(Words6(), on: ground.executor()), actor.sheet)
        await actor.visit(Scene(Words8(), on: ground.executor()), actor.sheet)
        await actor.visit(Scene(Texts4(), on: ground.executor()), actor.sheet)
        await actor.visitByOthers(Scene(Words8(), on: ground.executor()), actor.sheet)
      }
    }
  }

  /// The caller's actor itself releases the executor that each call waits for, so it must be free meanwhile.
  @MainActor @Test func `code on the main actor comes back there from a long wait`() async {
    let held = HeldExecutor()
    let scene = Scene(Words8(), on: .serial(held))
    let sheet = Sheet.mainActor
    func hold() {
      held.hold()
      Task { held.letGo() }
    }
    hold()
    sheet.enter("RootStore.state", await scene.root.state)
    await elsewhere()
    hold()
    sheet.enter("StateStore.state", await scene.child.state)
    await elsewhere()
    hold()
    sheet.enter("proxy.state", try? await scene.child.store().state)
    await elsewhere()
    hold()
    sheet.enter("send", try? await scene.child.send(1))
    await elsewhere()
    hold()
    sheet.enter("send reading", try? await scene.root.send(1) { $0 })
    await elsewhere()
    hold()
    sheet.enter("projection.send reading", try? await scene.projection.send(1) { $0 })
    await elsewhere()
    hold()
    sheet.enter("send contents", try? await scene.root.send(contentsOf: scene.actions))
    await elsewhere()
    hold()
    sheet.enter("statistics", await scene.root.statistics)
    await elsewhere()
    hold()
    sheet.enter("ObservableStore", try? await ObservableStore(scene.scope))
    await elsewhere()
    var states = (scene.child.states() as StateSequence).makeAsyncIterator()
    hold()
    sheet.enter("StateSequence", await states.next())
    await elsewhere()
    scene.child.dispatch(1)
    hold()
    sheet.enter("StateSequence, isolated", await states.next(isolation: #isolation))
    await elsewhere()
    hold()
    await scene.child.shutdown()
    sheet.note("StateStore.shutdown")
    await elsewhere()
    hold()
    sheet.refuse("ended.send", try? await scene.child.send(1))
    await elsewhere()
    hold()
    sheet.refuse("ended.state", try? await scene.child.store().state)
    await elsewhere()
    hold()
    await scene.root.shutdown(interceptors: .finish(within: .seconds(60)))
    sheet.note("RootStore.shutdown")
    expectAtHome(sheet)
  }

  private func expectAtHome(_ sheet: Sheet, _ location: SourceLocation = #_sourceLocation) {
    #expect(sheet.count > 0, sourceLocation: location)
    #expect(sheet.strays == [], "calls after which the caller was not on its actor", sourceLocation: location)
    #expect(sheet.mistakes == [], "calls that did not answer as they should", sourceLocation: location)
  }
}

extension Resident {
  fileprivate func expectHere() {
    #expect(executor.isCurrent && !MainQueue.isCurrent)
  }
}

extension Caller {
  fileprivate func visitByOthers<State: Sendable>(_ scene: Scene<State>, _ sheet: Sheet) async {
    await visitIsolated(scene, sheet)
    sheet.note("given the isolation")
    await visitNonsending(Scene(scene.state, on: scene.executor), sheet)
    sheet.note("staying")
  }
}

@concurrent
private func expectNowhere(_ resident: Resident) async {
  #expect(!resident.executor.isCurrent && !MainQueue.isCurrent)
}
