// Embeddings of texts: by a function of the application, or by a model of OpenAI's words, which a proxy may serve too.
import type { Configuration, IndexSettings } from './configuration.ts'
import { HttpError } from './errors.ts'
import type { Executor } from './executor.ts'
import { textsAt } from './text-paths.ts'

type Environment = Record<string, string | undefined>

const MODEL_MS = 30_000
const LONGEST_REASON = 200
/** The most texts of one item: more would be a book, which is not found by one meaning. */
const MOST_TEXTS = 100
/** A short list of paths may name a large value many times. */
const MOST_CHARACTERS = 1_000_000

export class Embeddings {
  readonly settings: IndexSettings
  readonly #makeVectors: (texts: string[]) => Promise<unknown>

  constructor(settings: IndexSettings, executors: Executor[], environment: Environment) {
    this.settings = settings
    const { embed } = settings
    const executor = executors.find(one => one.options.embed)
    this.#makeVectors =
      'model' in embed
        ? texts => askModel(embed.model, texts, environment)
        : async texts => JSON.parse(await executor!.ask('embed', { texts }))
  }

  /** Vectors of length one, as the bytes that are stored. */
  async embed(texts: string[]): Promise<Buffer[]> {
    if (texts.length === 0) return []
    const made = await this.#makeVectors(texts).catch(error => {
      throw error instanceof HttpError && error.status < 500 ? error : fail((error as Error).message)
    })
    if (!Array.isArray(made) || made.length !== texts.length) throw fail('there is not one for each text')
    return made.map(vector => this.#toBytes(vector))
  }

  #toBytes(vector: unknown): Buffer {
    const { dims } = this.settings
    if (!Array.isArray(vector) || vector.length !== dims || !vector.every(Number.isFinite))
      throw fail(`one has not ${dims} numbers, as \`store.index.dims\` says`)
    const length = Math.hypot(...vector) || 1
    return Buffer.from(Float32Array.from(vector, number => number / length).buffer)
  }

  /** The texts of an item by which it is found. `index`: paths, or false for none. */
  textsOf(value: object, index: string[] | false | null | undefined): string[] {
    if (index === false) return []
    const texts: string[] = []
    let length = 0
    for (const path of index ?? this.settings.fields)
      for (const text of textsAt(value, path).slice(0, MOST_TEXTS - texts.length)) {
        length += text.length
        if (length > MOST_CHARACTERS)
          throw new HttpError(
            422,
            `\`index\`: the texts have more than ${MOST_CHARACTERS} characters. Name shorter ones, or set it to false.`,
          )
        texts.push(text)
      }
    return texts
  }
}

const fail = (reason: string) =>
  new HttpError(502, `The embeddings could not be made: ${reason.slice(0, LONGEST_REASON)}. See \`store.index.embed\`.`)

async function askModel(model: string, input: string[], environment: Environment): Promise<unknown> {
  const { OPENAI_BASE_URL: base = 'https://api.openai.com/v1', OPENAI_API_KEY: key } = environment
  if (!key) throw fail('OPENAI_API_KEY is not set')
  const response = await fetch(`${base.replace(/\/$/, '')}/embeddings`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ model, input, encoding_format: 'float' }),
    signal: AbortSignal.timeout(MODEL_MS),
  })
  const answer = (await response.json().catch(() => null)) as {
    data?: { index: number; embedding: unknown }[]
    error?: { message?: string }
  } | null
  if (!response.ok || !answer?.data)
    throw fail(`the model answered ${response.status} ${answer?.error?.message ?? ''}`.trim())
  return answer.data.toSorted((a, b) => a.index - b.index).map(one => one.embedding)
}

/** Null without `store.index`. */
export function openEmbeddings(
  { index }: Pick<Configuration, 'index'>,
  executors: Executor[],
  environment: Environment,
): Embeddings | null {
  return index && new Embeddings(index, executors, environment)
}

/** Similarity of a vector with each of others: their product, since all have the length one. */
export function similarity(wanted: Float32Array, stored: Buffer): number {
  const vector = new Float32Array(stored.buffer.slice(stored.byteOffset, stored.byteOffset + stored.byteLength))
  let sum = 0
  for (let i = 0; i < wanted.length; i++) sum += wanted[i]! * vector[i]!
  return sum
}
