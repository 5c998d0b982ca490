// Asks for the report of a job (pure): a title, the most important findings, and traces worth a look.
import * as z from 'zod'
import { cleanLine } from './clean-text.ts'
import type { Context } from './cluster-questions.ts'
import { describeContext, listItems, objectSchema, parseAnswer, type Question, RULES } from './question.ts'

const MAX_TITLE = 120
const MAX_POINT = 500
const MAX_POINTS = 8
const MAX_HIGHLIGHTS = 10

export type ReportCluster = {
  name: string
  description: string
  level: number
  parent: string | null
  runs: number
  stats: object
}
/** `example` is an index of the examples that were shown. */
export type Report = { title: string; key_points: string[]; highlights: { example: number; reason: string }[] }

const Answer = z.object({
  title: z.string().min(1),
  key_points: z.array(z.string()).min(1),
  highlighted_traces: z.array(z.object({ n: z.number(), reason: z.string() })).default([]),
})

export const askForReport = (
  clusters: ReportCluster[],
  examples: { summary: string; cluster: string }[],
  { boundary, user_context }: Context,
): Question<Report> => ({
  name: 'report',
  system: [
    'You write the summary of a report about executions of an application, for the people who run it.',
    `\`key_points\` are three to ${MAX_POINTS} sentences, the most important first. Take numbers from the clusters ` +
      `as they are, and make up none. \`highlighted_traces\` are up to ${MAX_HIGHLIGHTS} executions worth a look, by ` +
      'their number `n`, each with the reason.',
    RULES(boundary),
    describeContext(user_context),
  ]
    .filter(Boolean)
    .join('\n'),
  content: `Clusters:\n${listItems(clusters, boundary)}\n\nExecutions:\n${listItems(examples, boundary)}`,
  schema: objectSchema({
    title: { type: 'string' },
    key_points: { type: 'array', items: { type: 'string' } },
    highlighted_traces: {
      type: 'array',
      items: objectSchema({ n: { type: 'integer' }, reason: { type: 'string' } }),
    },
  }),
  max_tokens: 4000,
  read: answer => {
    const { title, key_points, highlighted_traces } = parseAnswer(Answer, answer)
    const seen = new Set<number>()
    const isNew = (n: number) => Number.isInteger(n) && n >= 1 && n <= examples.length && !seen.has(n) && seen.add(n)
    return {
      title: cleanLine(title, MAX_TITLE),
      key_points: key_points
        .map(point => cleanLine(point, MAX_POINT))
        .filter(Boolean)
        .slice(0, MAX_POINTS),
      highlights: highlighted_traces
        .filter(({ n }) => isNew(n))
        .slice(0, MAX_HIGHLIGHTS)
        .map(({ n, reason }) => ({ example: n - 1, reason: cleanLine(reason, MAX_POINT) })),
    }
  },
})
