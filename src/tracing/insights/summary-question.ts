// Asks for the summary of one trace, its category where categories are given, and its attributes (pure).
import * as z from 'zod'
import type { AttributeSchemas } from './attributes.schema.ts'
import { type Attributes, attributesJsonSchema, readAttributes } from './attributes.ts'
import { cleanLine } from './clean-text.ts'
import type { Partitions } from './hierarchy.ts'
import { describeContext, objectSchema, parseAnswer, type Question, RULES } from './question.ts'
import { renderPrompt, type TemplateValues } from './summary-template.ts'

const DEFAULT_SUMMARY_PROMPT = `Say in one or two sentences what the user wanted and whether they got it.

Inputs:
{{run.inputs}}

Outputs:
{{run.outputs}}
{{#run.error}}
Error:
{{run.error}}
{{/run.error}}`

export const promptOf = ({ summary_prompt }: { summary_prompt?: string | null | undefined }): string =>
  summary_prompt?.trim() || DEFAULT_SUMMARY_PROMPT

const MAX_SUMMARY = 800

export type SummaryRequest = {
  summary_prompt?: string | null | undefined
  attribute_schemas?: AttributeSchemas | null | undefined
  partitions?: Partitions | null | undefined
  user_context?: Record<string, string> | null | undefined
}
/** `category` counts from 1. It is 0 if none fits, and where no categories are given. */
export type Summary = { summary: string; category: number; attributes: Attributes }

const Answer = z.object({
  summary: z.string().min(1),
  category: z.number().int().optional(),
  attributes: z.record(z.string(), z.unknown()).optional(),
})

export function askForSummary(request: SummaryRequest, values: TemplateValues, boundary: string): Question<Summary> {
  const attributes = request.attribute_schemas ?? {}
  const categories = Object.entries(request.partitions ?? {})
  const hasAttributes = Object.keys(attributes).length > 0
  return {
    name: 'summary',
    system: [
      'You read the record of one execution of an application, and describe it for a report about many of them.',
      RULES(boundary),
      'Name no person, and copy no secret, address or number of an account.',
      categories.length > 0 && describeCategories(categories),
      hasAttributes && 'Set an attribute to null if the record does not say it.',
      describeContext(request.user_context),
    ]
      .filter(Boolean)
      .join('\n'),
    content: renderPrompt(promptOf(request), values, boundary),
    schema: objectSchema({
      summary: { type: 'string' },
      ...(categories.length > 0 && { category: { type: 'integer' } }),
      ...(hasAttributes && { attributes: attributesJsonSchema(attributes) }),
    }),
    max_tokens: 2000,
    read: answer => {
      const given = parseAnswer(Answer, answer)
      const category = given.category ?? 0
      return {
        summary: cleanLine(given.summary, MAX_SUMMARY),
        category: category > 0 && category <= categories.length ? category : 0,
        attributes: readAttributes(attributes, given.attributes ?? {}),
      }
    },
  }
}

const describeCategories = (categories: [name: string, description: string][]): string =>
  'Set `category` to the number of the category that fits best, or to 0 if none does:\n' +
  categories.map(([name, description], i) => `${i + 1}. ${name}: ${description}`).join('\n')
