// Makes a plan, works on one step after the other, and answers from the results.
import { Annotation, END, START, StateGraph } from '@langchain/langgraph'
import { ChatOpenAI } from '@langchain/openai'

const model = new ChatOpenAI({ model: process.env.MODEL ?? 'gpt-4.1-mini' })
const MOST_STEPS = 5

const State = Annotation.Root({
  task: Annotation<string>,
  plan: Annotation<string[]>,
  results: Annotation<string[]>,
  answer: Annotation<string>,
})
type Known = typeof State.State

async function ask(system: string, text: string): Promise<string> {
  const answer = await model.invoke([
    { role: 'system', content: system },
    { role: 'user', content: text },
  ])
  return answer.text
}

async function makePlan({ task }: Known) {
  const plan = await ask('You plan. Answer with the steps of the task, one in a line, without numbers.', task)
  const steps = plan.split('\n').map(step => step.trim())
  return { plan: steps.filter(Boolean).slice(0, MOST_STEPS), results: [] }
}

async function work({ task, plan, results }: Known) {
  const done = results.map((result, i) => `${plan[i]}: ${result}`).join('\n')
  const step = plan[results.length]!
  return { results: [...results, await ask(`You work on one step of: ${task}\nDone so far:\n${done}`, step)] }
}

const answer = async ({ task, results }: Known) => ({
  answer: await ask('You answer the task from the results of its steps.', `${task}\n${results.join('\n')}`),
})

const isDone = ({ plan, results }: Known) => (results.length < plan.length ? 'work' : 'conclude')

export const graph = new StateGraph(State)
  .addNode('make_plan', makePlan)
  .addNode('work', work)
  .addNode('conclude', answer)
  .addEdge(START, 'make_plan')
  .addConditionalEdges('make_plan', isDone, ['work', 'conclude'])
  .addConditionalEdges('work', isDone, ['work', 'conclude'])
  .addEdge('conclude', END)
  .compile()
