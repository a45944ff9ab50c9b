import Puredux

struct Cart: Sendable, Equatable, Codable {
  var items: [String] = []
  var isOpen = true
}
enum CartAction: Sendable, Codable {
  case add(String)
  case empty
}
struct Opaque: Sendable { var value = 0 }
final class Reference { var value = 0 }
