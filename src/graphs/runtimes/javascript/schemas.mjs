// JSON Schemas of a graph, from what it has at run time.
const MESSAGES = { type: 'array', items: { type: 'object' } }

/** The names of the state. Types of `Annotation` are only in TypeScript. */
function fromChannels(graph, names) {
  const list = (Array.isArray(names) ? names : [names]).filter(name => name && !String(name).startsWith('__'))
  const properties = Object.fromEntries(list.map(name => [name, name === 'messages' ? MESSAGES : {}]))
  return { type: 'object', title: graph.name ?? 'State', properties }
}

const stateNames = graph =>
  Object.keys(graph.builder?.channels ?? graph.channels ?? {}).filter(
    name => !name.startsWith('branch:') && !name.startsWith('__'),
  )

const hasJsonSchema = value => typeof value?.getJsonSchema === 'function'
function fromStateSchema({ builder }) {
  const [state, input, output] = [
    builder?._schemaRuntimeDefinition,
    builder?._inputRuntimeDefinition,
    builder?._outputRuntimeDefinition,
  ]
  if (!hasJsonSchema(state)) return {}
  return {
    state: state.getJsonSchema(),
    input: (hasJsonSchema(input) ? input : state).getInputJsonSchema?.(),
    output: (hasJsonSchema(output) ? output : state).getJsonSchema(),
  }
}

async function fromZod(graph) {
  try {
    const zod = await import('@langchain/langgraph/zod/schema')
    return {
      state: zod.getUpdateTypeSchema(graph),
      input: zod.getInputTypeSchema(graph),
      output: zod.getOutputTypeSchema(graph),
      config: zod.getConfigTypeSchema(graph),
    }
  } catch {
    // The application has a library without it.
    return {}
  }
}

export async function describeSchemas(graph) {
  const [declared, zod] = [fromStateSchema(graph), await fromZod(graph)]
  const pick = name => declared[name] ?? zod[name]
  const names = stateNames(graph)
  const config = pick('config') ?? { type: 'object', properties: {} }
  // In JavaScript, configuration and context are one.
  return {
    input_schema: pick('input') ?? fromChannels(graph, names),
    output_schema: pick('output') ?? fromChannels(graph, graph.outputChannels ?? names),
    state_schema: pick('state') ?? fromChannels(graph, names),
    config_schema: config,
    context_schema: config,
  }
}
