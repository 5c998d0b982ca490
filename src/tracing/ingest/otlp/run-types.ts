// The type of a run, by the conventions of OpenTelemetry, OpenInference, OpenLLMetry, the AI SDK and langsmith.
import { RUN_TYPES } from '../../runs/runs.schema.ts'
import type { RunType } from '../../store/store.ts'
import type { AttributeReader } from './attribute-reader.ts'

const KIND_ATTRIBUTES = ['langsmith.span.kind', 'openinference.span.kind', 'traceloop.span.kind']
const OPERATION_ATTRIBUTES = ['gen_ai.operation.name', 'ai.operationId', 'llm.request.type']

const OPERATIONS: [RunType, string[]][] = [
  [
    'llm',
    [
      'chat',
      'completion',
      'text_completion',
      'generate_content',
      'ai.generateText.doGenerate',
      'ai.streamText.doStream',
      'ai.generateObject.doGenerate',
      'ai.streamObject.doStream',
    ],
  ],
  ['embedding', ['embedding', 'embeddings', 'ai.embed.doEmbed', 'ai.embedMany.doEmbed']],
  ['tool', ['execute_tool', 'ai.toolCall']],
  ['retriever', ['retrieval', 'rerank', 'reranker']],
]
const TYPE_OF_OPERATION = new Map(OPERATIONS.flatMap(([type, names]) => names.map(name => [name, type])))

/** A kind that no table has, such as `agent`, is a chain. */
export function readRunType(attributes: AttributeReader): RunType {
  const kind = attributes.text(...KIND_ATTRIBUTES)?.toLowerCase()
  const operation = attributes.text(...OPERATION_ATTRIBUTES)
  if (kind !== undefined) return RUN_TYPES.find(type => type === kind) ?? TYPE_OF_OPERATION.get(kind) ?? 'chain'
  return TYPE_OF_OPERATION.get(operation ?? '') ?? 'chain'
}
