import Foundation
import Hummingbird
import Logging
import Puredux
import PureduxLog

/// Answers every error with JSON: `{"error": {"message": …}}`.
struct JSONErrors<Context: RequestContext>: RouterMiddleware {
  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    do {
      return try await next(request, context)
    } catch {
      return try answer(to: error, logger: context.logger).response(from: request, context: context)
    }
  }

  private func answer(to error: any Error, logger: Logger) -> HTTPError {
    switch error {
    case let error as HTTPError:
      return HTTPError(error.status, headers: error.headers, message: error.body ?? error.status.message)
    case let error as any HTTPResponseError:
      return HTTPError(error.status, message: error.status.message)
    case let unknown as Boards.Unknown:
      return HTTPError(.notFound, message: "There is no board \(unknown.id).")
    case let refusal as Board.Refusal: return refusal.answer
    case StoreError.rejected(let reason):
      return HTTPError(.unprocessableContent, message: reason?.description ?? "This is not possible.")
    case StoreError.outcomeUnknown:
      return HTTPError(
        .serviceUnavailable, message: "It is not known whether this was saved. Look at the board before you repeat it.")
    case StoreError.terminated:
      return HTTPError(.serviceUnavailable, message: "The server is shutting down.")
    case is StoreError, is LogError:
      logger.error("\(error)")
      return HTTPError(.serviceUnavailable, message: "The board cannot be opened now. Try again later.")
    default:
      logger.error("\(error)")
      return HTTPError(.internalServerError, message: "Something went wrong.")
    }
  }
}

extension HTTPResponse.Status {
  fileprivate var message: String {
    switch self {
    case .notFound: "There is nothing here."
    case .contentTooLarge: "The body is too large: at most \(BoardContext.largestBody) bytes."
    case .badRequest: "The body cannot be read."
    default: reasonPhrase
    }
  }
}

extension Board.Refusal {
  fileprivate var answer: HTTPError {
    switch self {
    case .unknownCard(let id): HTTPError(.notFound, message: "There is no card \(id) on this board.")
    case .unknownColumn(let name):
      HTTPError(.unprocessableContent, message: "There is no column \"\(name)\" on this board.")
    case .changedSince:
      HTTPError(.conflict, message: "This cannot be undone: the card has been changed since, or it is too long ago.")
    case .full:
      HTTPError(.unprocessableContent, message: "The board is full: at most \(Board.cardLimit) cards.")
    }
  }
}
