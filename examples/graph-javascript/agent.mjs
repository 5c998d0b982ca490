// A graph that answers messages. Replace `answer` by a call of a model.
import { AIMessage } from '@langchain/core/messages'
import { END, interrupt, MessagesAnnotation, START, StateGraph } from '@langchain/langgraph'

function answer({ messages }) {
  const text = messages.at(-1).text
  if (!text.startsWith('send ')) return { messages: [new AIMessage(`You said: ${text}`)] }
  // The run stops here until somebody resumes it with a decision.
  const decision = interrupt({ question: `Send "${text.slice(5)}"?` })
  return { messages: [new AIMessage(decision === 'yes' ? 'Sent.' : 'Not sent.')] }
}

export const graph = new StateGraph(MessagesAnnotation)
  .addNode('answer', answer)
  .addEdge(START, 'answer')
  .addEdge('answer', END)
  .compile()
