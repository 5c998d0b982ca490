// Writes a mail, and asks a person before it sends it. Resume with "send", "discard" or {"edit": "another text"}.
import { AIMessage, SystemMessage } from '@langchain/core/messages'
import { Annotation, Command, END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ChatOpenAI } from '@langchain/openai'

const model = new ChatOpenAI({ model: process.env.MODEL ?? 'gpt-4.1-mini' })
const SYSTEM = new SystemMessage('You write short mails. Answer with the text of the mail alone.')
const State = Annotation.Root({ ...MessagesAnnotation.spec, draft: Annotation() })

async function write({ messages }) {
  const { text } = await model.invoke([SYSTEM, ...messages])
  return { draft: text }
}

function review({ draft }) {
  const decision = interrupt({ question: 'Send this mail?', draft })
  if (decision === 'discard') return new Command({ goto: END, update: { messages: [new AIMessage('Discarded.')] } })
  return new Command({ goto: 'send', update: { draft: decision.edit ?? draft } })
}

// Send it here by the service of your choice.
const send = ({ draft }) => ({ messages: [new AIMessage(`Sent: ${draft}`)] })

export const graph = new StateGraph(State)
  .addNode('write', write)
  .addNode('review', review, { ends: ['send', END] })
  .addNode('send', send)
  .addEdge(START, 'write')
  .addEdge('write', 'review')
  .addEdge('send', END)
  .compile()
