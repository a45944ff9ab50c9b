import Foundation
import Histories
import Testing

@Suite struct LineTests {
  @Test(
    arguments: [
      .process(name: "p \"1\"\\\n\u{1}é🙂", clock: ""),
      .invocation(call: 1, writer: "w", action: "a", at: -5),
      .read(call: 2, writer: "w", claim: .linearizable, at: .max),
      .read(call: 2, writer: "w", claim: .ownWrites, at: 0),
      .response(call: 1, outcome: .acknowledged, position: 3, hash: .max, at: 7),
      .response(call: 1, outcome: .failed, position: nil, hash: nil, at: 7),
      .incarnation(replica: "r", after: 0, hash: 0, at: 1),
      .applied(replica: "r", position: 9, actions: ["a", "", "\u{7F}"], hash: 1),
      .applied(replica: "r", position: 9, actions: [], hash: 1),
    ] as [Event])
  func isReadAsWritten(event: Event) throws {
    let line = event.line
    #expect(line.last == UInt8(ascii: "\n") && line.dropLast().firstIndex(of: UInt8(ascii: "\n")) == nil)
    #expect(Event(line: line.dropLast()) == event)
    // Other JSON readers accept the lines.
    #expect(try JSONSerialization.jsonObject(with: Data(line)) is [String: Any])
    for length in 0..<line.count - 1 { #expect(Event(line: line.prefix(length)) == nil) }
  }

  /// Lines in the format of other tools.
  @Test func isReadAsOthersWrite() {
    func event(_ text: String) -> Event? { Event(line: Array(text.utf8)[...]) }
    #expect(
      event(#" { "at" : 5 , "action":"\u0041\ud83d\ude42\/\b\f", "writer": "w", "note": ["x"], "n":1, "invoke" : 1 } "#)
        == .invocation(call: 1, writer: "w", action: "A🙂/\u{8}\u{C}", at: 5))
    for text in [
      "", "{}", "[]", "{\"invoke\":1}", #"{"invoke":1,"writer":"w","action":"\ud83d","at":1}"#,
      #"{"invoke":1,"writer":"w","action":"a","at":1}}"#, #"{"invoke":1,"writer":"w","read":"fresh","at":1}"#,
      #"{"invoke":99999999999999999999,"writer":"w","action":"a","at":1}"#,
      #"{"return":1,"outcome":"maybe","at":1}"#, #"{"begin":"r","after":0,"hash":"xyz","at":1}"#,
    ] { #expect(event(text) == nil, "\(text)") }
    #expect(Event(line: [UInt8](#"{"process":"x","clock":""#.utf8) + [0xFF, 0x22, 0x7D]) == nil)
  }

  @Test func recorder() throws {
    let path = FileManager.default.temporaryDirectory.path + "/history-\(UUID().uuidString)"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let recorder = try Recorder(path: path, process: "p")
    recorder.begin("r", after: 0, hash: 1)
    let call = recorder.invoke("a", by: "w")
    recorder.apply(["a"], at: 1, on: "r", hash: 2)
    recorder.response(call, .acknowledged, position: 1, hash: 2)
    let read = recorder.read(by: "w", claiming: .linearizable)
    recorder.response(read, .acknowledged, position: 1, hash: 2)
    _ = recorder.invoke("b", by: "w")
    let verdict = try History(paths: [path]).checked()
    #expect(verdict.isCorrect, "\(verdict)")
    #expect(
      verdict.figures
        == Verdict.Figures.with {
          $0.files = 1; $0.acknowledged = 1; $0.unknown = 1; $0.reads = 1; $0.incarnations = 1; $0.positions = 1
        })
    let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
    #expect(lines.count == 8 && lines[0] == "{\"process\":\"p\",\"clock\":\"\(Recorder.clock)\"}")
  }

  @Test func noFile() {
    #expect(throws: (any Error).self) { try History(paths: ["/nowhere/at/all"]) }
    #expect(throws: (any Error).self) { try Recorder(path: "/nowhere/at/all", process: "p") }
  }
}
