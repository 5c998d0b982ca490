// The words of a client: those of the contract, or those of a vendor, which the edge of the app translates.
import { type ContractWords, contractWords } from '../../protocol/contract-words.ts'
import { type Failure, fail } from './errors.ts'

const HEADER = 'X-Contract-Words'
const [OWN] = contractWords

/** A request in other words. What is not here is read as it was sent: headers, uploads, streams. */
export type Reading = {
  /** The path whose route answers. */
  path: string
  readQuery(query: Record<string, unknown>): Record<string, unknown>
  /** Gets a body of JSON that was read within the limits of its route, and returns the one to validate and to store. */
  readBody(text: string): string
}
const readings = new WeakMap<Request, Reading>()
export const readingOf = (request: Request): Reading | undefined => readings.get(request)
export const setReading = (request: Request, reading: Reading): unknown => readings.set(request, reading)

type Reply = Response | Promise<Response>
/** Answers a request in the words of a vendor. */
export type Translate = (request: Request, answer: (request: Request) => Reply) => Promise<Response>
type Translators = Record<Exclude<ContractWords, typeof OWN>, () => Promise<Translate>>

/** A request may name its words, and `preset` counts for all others. Tables are imported by the first request. */
export function acceptWords<Rest extends unknown[]>(
  answer: (request: Request, ...rest: Rest) => Reply,
  preset: ContractWords,
  translators: Translators,
  answerFailing: (error: Failure) => typeof answer,
): typeof answer {
  return (request, ...rest) => {
    const words = request.headers.get(HEADER) ?? preset
    if (words === OWN) return answer(request, ...rest)
    if (!Object.hasOwn(translators, words)) return answerFailing(unknownWords())(request, ...rest)
    return translators[words as keyof Translators]().then(translate => translate(request, one => answer(one, ...rest)))
  }
}

function unknownWords(): Failure {
  const msg = `must be ${contractWords.map(word => `\`${word}\``).join(' or ')}`
  const errors = [{ type: 'invalid_value', loc: ['header', HEADER], msg }]
  return fail('invalid_request', { detail: `header.${HEADER}: ${msg}.`, errors })
}

/** Caches keep the answers in different words apart. */
export const varyByWords = ({ headers }: Response): void => headers.append('Vary', HEADER)
