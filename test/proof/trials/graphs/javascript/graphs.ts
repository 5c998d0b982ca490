// Graphs of the trial: an agent with a model, a tool and an approval, and graphs that are slow, fail or do nothing.
import { AIMessage, HumanMessage } from '@langchain/core/messages'
import { FakeListChatModel } from '@langchain/core/utils/testing'
import {
  Annotation,
  interrupt,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  StateGraph,
} from '@langchain/langgraph'

const State = Annotation.Root({ ...MessagesAnnotation.spec, steps: Annotation<number> })
type Config = LangGraphRunnableConfig

async function answer(state: typeof State.State, config: Config) {
  config.writer?.({ progress: 'thinking' })
  await config.store?.put(['seen'], 'last', { count: state.messages.length })
  const model = new FakeListChatModel({ responses: [`You said: ${state.messages.at(-1)?.content}`] })
  return { messages: [await model.invoke(state.messages)] }
}

async function approve(state: typeof State.State) {
  const text = String(state.messages.findLast(message => message instanceof HumanMessage)?.content)
  if (!text.startsWith('delete')) return {}
  const decision = interrupt({ question: `May I ${text}?` })
  return { messages: [new AIMessage(`Decision: ${decision}`)] }
}

export const agent = new StateGraph(State)
  .addNode('answer', answer)
  .addNode('approve', approve)
  .addEdge('__start__', 'answer')
  .addEdge('answer', 'approve')
  .addEdge('approve', '__end__')
  .compile()

/** Counts to ten, a step in 600 ms, unless the configuration says other times. */
async function count(state: typeof State.State, config: Config) {
  const { steps = 10, pause = 600 } = (config.configurable ?? {}) as { steps?: number; pause?: number }
  for (let step = 1; step <= steps; step++) {
    await new Promise(resolve => setTimeout(resolve, pause))
    config.writer?.({ step })
  }
  return { messages: [new AIMessage('counted')], steps: (state.steps ?? 0) + 1 }
}
export const slow = new StateGraph(State)
  .addNode('first', async () => ({ steps: 0 }))
  .addNode('count', count)
  .addEdge('__start__', 'first')
  .addEdge('first', 'count')
  .addEdge('count', '__end__')
  .compile()

export const failing = new StateGraph(State)
  .addNode('fail', async () => {
    throw new TypeError('this graph fails')
  })
  .addEdge('__start__', 'fail')
  .compile()

const Small = Annotation.Root({ value: Annotation<number> })
export const trivial = new StateGraph(Small)
  .addNode('add', async state => ({ value: (state.value ?? 0) + 1 }))
  .addEdge('__start__', 'add')
  .compile()

const Words = Annotation.Root({ text: Annotation<string> })
/** Finds the note of its user that is nearest to a text. */
async function find({ text }: typeof Words.State, config: Config) {
  const { identity } = config.configurable?.langgraph_auth_user ?? {}
  const [found] = (await config.store?.search([identity, 'notes'], { query: text, limit: 1 })) ?? []
  return { text: found?.key ?? '' }
}
export const finder = new StateGraph(Words).addNode('find', find).addEdge('__start__', 'find').compile()

const child = new StateGraph(Small)
  .addNode('double', async state => ({ value: (state.value ?? 0) * 2 }))
  .addEdge('__start__', 'double')
  .compile()
/** A function of its configuration. */
export const parent = () =>
  new StateGraph(Small).addNode('child', child).addEdge('__start__', 'child').addEdge('child', '__end__')
