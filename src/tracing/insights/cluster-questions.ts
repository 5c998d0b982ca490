// Asks for clusters (pure): categories of some summaries, one list of many, which one a summary is in, and groups.
import * as z from 'zod'
import { cleanLine } from './clean-text.ts'
import {
  describeContext,
  listItems,
  objectSchema,
  parseAnswer,
  type Question,
  RULES,
  UnusableAnswer,
} from './question.ts'

const MAX_NAME = 80
const MAX_DESCRIPTION = 400

export type Category = { name: string; description: string }
export type Group = Category & { members: number[] }
export type Context = { boundary: string; user_context?: Record<string, string> | null | undefined }

const Named = z.object({ name: z.string().min(1), description: z.string().default('') })
const CATEGORY = { name: { type: 'string' }, description: { type: 'string' } }
const cleanCategory = ({ name, description }: Category): Category => ({
  name: cleanLine(name, MAX_NAME) || 'Unnamed',
  description: cleanLine(description, MAX_DESCRIPTION),
})

const buildSystem = (task: string, { boundary, user_context }: Context): string =>
  [
    'You sort executions of an application, of each of which you get a summary.',
    task,
    'Names have up to six words, such as "Refund of a late order". Descriptions are one sentence.',
    RULES(boundary),
    describeContext(user_context),
  ]
    .filter(Boolean)
    .join('\n')

/** Asks for the themes of one batch. */
export const askForThemes = (summaries: string[], max: number, context: Context): Question<Category[]> => ({
  name: 'themes',
  system: buildSystem(`Find at most ${max} categories that together hold all of the summaries.`, context),
  content: listItems(
    summaries.map(summary => ({ summary })),
    context.boundary,
  ),
  ...categoryList(max),
})

/** Merges the categories of all batches. */
export const askForMerge = (categories: Category[], max: number, context: Context): Question<Category[]> => ({
  name: 'merge',
  system: buildSystem(
    `The lines are categories that were found in parts of the executions. Merge them into at most ${max} categories ` +
      'that do not overlap and together hold all of them.',
    context,
  ),
  content: listItems(categories, context.boundary),
  ...categoryList(max),
})

const categoryList = (max: number) => ({
  schema: objectSchema({ categories: { type: 'array', items: objectSchema(CATEGORY) } }),
  max_tokens: 8000,
  read: (answer: unknown): Category[] => {
    const { categories } = parseAnswer(z.object({ categories: z.array(Named).min(1) }), answer)
    return withoutRepeats(categories.map(cleanCategory)).slice(0, max)
  },
})

const withoutRepeats = (categories: Category[]): Category[] => [
  ...new Map(categories.map(one => [one.name.toLowerCase(), one])).values(),
]

/** The category of each summary, counted from 1. It is 0 if none fits or none was given. */
export const askForAssignments = (
  summaries: string[],
  categories: Category[],
  context: Context,
): Question<number[]> => ({
  name: 'assignments',
  system: buildSystem(
    `Give each line the number of the category that fits best, or 0 if none of ${categories.length} does:\n` +
      listItems(categories, context.boundary),
    context,
  ),
  content: listItems(
    summaries.map(summary => ({ summary })),
    context.boundary,
  ),
  schema: objectSchema({
    assignments: {
      type: 'array',
      items: objectSchema({ n: { type: 'integer' }, category: { type: 'integer' } }),
    },
  }),
  max_tokens: 8000,
  read: answer => {
    const Assignment = z.object({ n: z.number(), category: z.number() })
    const { assignments } = parseAnswer(z.object({ assignments: z.array(Assignment) }), answer)
    const found: (number | undefined)[] = summaries.map(() => undefined)
    for (const { n, category } of assignments) {
      const isKnown = n >= 1 && n <= summaries.length && Number.isInteger(category)
      if (isKnown && category >= 0 && category <= categories.length) found[n - 1] ??= category
    }
    const missing = found.filter(category => category === undefined).length
    if (missing > summaries.length / 2)
      throw new UnusableAnswer(`answer.assignments: ${missing} of ${summaries.length} lines have no category.`)
    return found.map(category => category ?? 0)
  },
})

/** The members of a group are numbers of clusters, counted from 1. A cluster may be in no group. */
export const askForGroups = (
  clusters: (Category & { runs: number })[],
  max: number,
  context: Context,
): Question<Group[]> => ({
  name: 'groups',
  system: buildSystem(
    `The lines are categories, with their number of executions. Put them into at most ${max} broader groups, each ` +
      'category into one of them.',
    context,
  ),
  content: listItems(clusters, context.boundary),
  schema: objectSchema({
    groups: {
      type: 'array',
      items: objectSchema({ ...CATEGORY, members: { type: 'array', items: { type: 'integer' } } }),
    },
  }),
  max_tokens: 8000,
  read: answer => {
    const Answer = z.object({ groups: z.array(Named.extend({ members: z.array(z.number()) })).min(1) })
    const seen = new Set<number>()
    const take = (n: number) => n >= 1 && n <= clusters.length && Number.isInteger(n) && !seen.has(n) && seen.add(n)
    const groups = parseAnswer(Answer, answer)
      .groups.slice(0, max)
      .map(group => ({ ...cleanCategory(group), members: group.members.filter(take) }))
      .filter(({ members }) => members.length > 0)
    if (seen.size < clusters.length / 2)
      throw new UnusableAnswer(`answer.groups: ${clusters.length - seen.size} of ${clusters.length} lines are in none.`)
    return groups
  },
})
