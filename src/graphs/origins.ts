// The origins of pages whose browsers may read answers.

type Rules = { allow_origins?: string[] | null | undefined; allow_origin_regex?: string | null | undefined }

/** A scheme, a name of at most 253 characters, and a port. */
const LONGEST_ORIGIN = 300

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
  const pattern = readOriginPattern(allow_origin_regex)!
  const matches = (origin: string) => origin.length <= LONGEST_ORIGIN && pattern.test(origin)
  return origin => (named.includes(origin) || matches(origin) ? origin : null)
}
