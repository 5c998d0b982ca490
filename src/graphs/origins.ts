// The origins of pages whose browsers may read answers.
import { createContext, Script } from 'node:vm'

type Rules = { allow_origins?: string[] | null | undefined; allow_origin_regex?: string | null | undefined }

/** A scheme, a name of at most 253 characters, and a port. */
const LONGEST_ORIGIN = 300
/** Any caller chooses the origin, and some patterns take for ever on some of them. */
const LONGEST_MATCH_MS = 20

/** Undefined if the text is no pattern. The file of the application has it, and the application's process runs it. */
export function readOriginPattern(text: string): RegExp | undefined {
  try {
    // By itself: within the other, a lone parenthesis could close its group.
    new RegExp(text)
    return new RegExp(`^(?:${text})$`)
  } catch {
    return undefined
  }
}

type Allowed = string | string[] | ((origin: string) => string | null)
/** For the middleware of Hono. Without a rule, all may. */
export function allowedOrigins(rules: Rules | null | undefined): Allowed {
  const { allow_origins, allow_origin_regex } = rules ?? {}
  if (!allow_origin_regex) return allow_origins ?? '*'
  const named = allow_origins ?? []
  if (named.includes('*')) return '*'
  const matches = createMatcher(readOriginPattern(allow_origin_regex)!)
  return origin => (named.includes(origin) || (origin.length <= LONGEST_ORIGIN && matches(origin)) ? origin : null)
}

/** False where it takes too long: only a script of its own can be stopped. */
function createMatcher(pattern: RegExp): (origin: string) => boolean {
  const context = createContext({ pattern, origin: '' })
  const script = new Script('pattern.test(origin)')
  return origin => {
    context.origin = origin
    try {
      return script.runInContext(context, { timeout: LONGEST_MATCH_MS })
    } catch {
      return false
    }
  }
}
