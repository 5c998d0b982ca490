// Reads `extra` with metadata and parameters, and tags, from a span.
import { type AttributeReader, isObject, parseIfJson } from './attribute-reader.ts'
import type { Attributes, Value } from './spans.ts'
import { readUsage } from './usage.ts'

export type Members = { [name: string]: Value }

const PROVIDER = ['gen_ai.provider.name', 'gen_ai.system', 'llm.provider', 'llm.system', 'ai.model.provider']
const REQUESTED_MODEL = ['gen_ai.request.model', 'llm.request.model', 'ai.model.id']
const ANSWERING_MODEL = ['gen_ai.response.model', 'llm.model_name', 'ai.response.model', 'embedding.model_name']

const METADATA: Record<string, string[]> = {
  thread_id: ['gen_ai.conversation.id', 'session.id'],
  user_id: ['user.id', 'enduser.id'],
  tool_name: ['gen_ai.tool.name', 'ai.toolCall.name'],
  tool_call_id: ['gen_ai.tool.call.id', 'ai.toolCall.id', 'tool_call.id'],
  agent_name: ['gen_ai.agent.name', 'agent.name'],
  finish_reasons: ['gen_ai.response.finish_reasons', 'ai.response.finishReason'],
  response_id: ['gen_ai.response.id', 'ai.response.id'],
}
/** Values of these are metadata under the rest of their name. */
const METADATA_PREFIXES = ['langsmith.metadata.', 'traceloop.association.properties.', 'ai.telemetry.metadata.']

const PARAMETERS_PREFIX = 'gen_ai.request.'
const OTHER_PARAMETERS: Record<string, string[]> = {
  choice_count: ['gen_ai.request.choice.count'],
  stop: ['llm.request.stop', 'ai.settings.stopSequences'],
  temperature: ['llm.request.temperature', 'ai.settings.temperature'],
  max_tokens: ['llm.request.max_tokens', 'ai.settings.maxOutputTokens', 'ai.settings.maxTokens'],
  top_p: ['llm.top_p', 'ai.settings.topP'],
  top_k: ['llm.top_k', 'ai.settings.topK'],
  frequency_penalty: ['llm.frequency_penalty', 'ai.settings.frequencyPenalty'],
  presence_penalty: ['llm.presence_penalty', 'ai.settings.presencePenalty'],
  tools: ['gen_ai.tool.definitions', 'llm.request.functions', 'ai.prompt.tools'],
  tool_choice: ['ai.prompt.toolChoice'],
}
/** Attributes of the process that are kept. Others may hold secrets, such as the arguments of its command. */
const RESOURCE = /^(service\.|deployment\.environment|telemetry\.sdk\.|cloud\.region|k8s\.(pod|namespace)\.name)/

function readNamed(attributes: AttributeReader, names: Record<string, string[]>): Members {
  const found = Object.entries(names).map(([member, alternatives]) => [member, attributes.value(...alternatives)])
  return Object.fromEntries(found.filter(([, value]) => value !== undefined))
}

function readParameters(attributes: AttributeReader, model: string | undefined): Members {
  const sent = parseIfJson(attributes.value('llm.invocation_parameters') ?? null)
  const others = readNamed(attributes, OTHER_PARAMETERS)
  const requested = Object.fromEntries(attributes.startingWith(PARAMETERS_PREFIX))
  const { model: _, 'choice.count': __, ...parameters } = requested
  const listed = attributes.list('llm.tools').map(item => parseIfJson(isObject(item) ? (item.tool ?? item) : item))
  const tools = parseIfJson(others.tools ?? listed)
  return {
    ...(isObject(sent) && sent),
    ...others,
    ...parameters,
    ...(model !== undefined && { model }),
    ...(Array.isArray(tools) && tools.length > 0 && { tools }),
  }
}

function readOwnMetadata(attributes: AttributeReader): Members {
  const whole = parseIfJson(attributes.value('metadata') ?? null)
  const prefixed = METADATA_PREFIXES.flatMap(prefix => attributes.startingWith(prefix))
  return {
    ...(isObject(whole) && whole),
    ...Object.fromEntries(prefixed.map(([name, value]) => [name, parseIfJson(value)])),
  }
}

export const readRuntime = (resource: Attributes): Members =>
  Object.fromEntries([...resource].filter(([name]) => RESOURCE.test(name)))

/** Call it last: attributes that no other reader has read go to `metadata.otel`. */
export function readExtra(attributes: AttributeReader, runtime: Members, ids: Members): Members {
  const requested = attributes.text(...REQUESTED_MODEL)
  const answering = attributes.text(...ANSWERING_MODEL)
  const provider = attributes.text(...PROVIDER)
  const usage = readUsage(attributes)
  const model = requested ?? answering
  const parameters = readParameters(attributes, model)
  const own = readOwnMetadata(attributes)
  const named = readNamed(attributes, METADATA)
  const left = attributes.left()
  const metadata = {
    ...named,
    ...(provider !== undefined && { ls_provider: provider }),
    ...(model !== undefined && { ls_model_name: model }),
    ...(answering !== undefined && answering !== model && { response_model: answering }),
    ...(usage !== undefined && { usage_metadata: usage }),
    ...own,
    ...ids,
    ...(Object.keys(left).length > 0 && { otel: left }),
  }
  return {
    metadata,
    ...(Object.keys(parameters).length > 0 && { invocation_params: parameters }),
    ...(Object.keys(runtime).length > 0 && { runtime }),
  }
}

/** langsmith separates tags by commas, OpenInference has a list. */
export function readTags(attributes: AttributeReader): string[] | undefined {
  const separated = attributes.text('langsmith.span.tags')?.split(',') ?? []
  const listed = [parseIfJson(attributes.value('tag.tags') ?? [])].flat().filter(tag => typeof tag === 'string')
  const tags = new Set([...separated, ...listed].map(tag => tag.trim()).filter(tag => tag !== ''))
  return tags.size > 0 ? [...tags] : undefined
}
