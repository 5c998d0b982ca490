// Answers a question from documents that the store has. Put them there by the API of the store, each with a `text`.
import { SystemMessage } from '@langchain/core/messages'
import { END, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'
import { ChatOpenAI } from '@langchain/openai'

const model = new ChatOpenAI({ model: process.env.MODEL ?? 'gpt-4.1-mini' })
const MOST_DOCUMENTS = 3

const wordsOf = text => new Set(text.toLowerCase().match(/\p{L}{3,}|\p{N}+/gu) ?? [])

/** The documents with the most words of the question. */
async function retrieve(question, store) {
  const words = wordsOf(question)
  const documents = await store.search(['documents'], { limit: 100 })
  return documents
    .map(({ value }) => ({ text: value.text, shared: wordsOf(value.text).intersection(words).size }))
    .filter(({ shared }) => shared > 0)
    .sort((a, b) => b.shared - a.shared)
    .slice(0, MOST_DOCUMENTS)
    .map(({ text }) => text)
}

async function answer({ messages }, { store }) {
  const found = await retrieve(messages.at(-1).text, store)
  const system = new SystemMessage(
    `You answer from these documents, or say that they have no answer:\n${found.join('\n') || 'none'}`,
  )
  return { messages: [await model.invoke([system, ...messages])] }
}

export const graph = new StateGraph(MessagesAnnotation)
  .addNode('answer', answer)
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()
