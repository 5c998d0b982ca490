// The form that starts a run: a message, or the input as JSON.
import { useState } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { CheckField, SelectField, TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { type Assistant, type GraphSchemas, takesMessages } from './graph-types.ts'
import styles from './graphs.module.css'
import { type Graphs, useGraphRead } from './use-application.ts'

type Props = {
  graphs: Graphs
  assistants: Assistant[]
  /** The assistant of the last run. */
  assistant?: string | undefined
  isBusy: boolean
  error: Error | undefined
  onStart: (request: { assistant_id: string; input: unknown }) => Promise<void>
}

export function RunForm({ graphs, assistants, assistant, isBusy, error, onStart }: Props) {
  const [chosen, setChosen] = useState(assistant ?? assistants[0]?.assistant_id ?? '')
  const [text, setText] = useState('')
  const [wantsJson, setWantsJson] = useState(false)
  const [fault, setFault] = useState<string>()
  const schemas = useGraphRead<GraphSchemas>(
    graphs,
    { method: 'GET', path: `/assistants/${chosen}/schemas` },
    { enabled: chosen !== '' },
  )
  const hasMessages = takesMessages(schemas.data)
  const isJson = wantsJson || !hasMessages

  function submit() {
    if (isBusy) return
    if (text.trim() === '') return setFault(isJson ? 'Type the input as JSON.' : 'Type a message.')
    let input: unknown = { messages: [{ role: 'user', content: text }] }
    if (isJson)
      try {
        input = JSON.parse(text)
      } catch (caught) {
        return setFault((caught as Error).message)
      }
    setFault(undefined)
    void onStart({ assistant_id: chosen, input }).then(() => setText(''))
  }

  return (
    <Form
      label="Run"
      error={error}
      onSubmit={submit}
      footer={
        <Button
          type="submit"
          look="primary"
          busy={isBusy}
          unavailable={chosen === '' ? 'The application has no assistant.' : undefined}
        >
          Start run
        </Button>
      }
    >
      <TextField
        label={isJson ? 'Input' : 'Message'}
        hint={isJson ? 'JSON, as the state of the graph has it.' : 'Ctrl+Enter starts the run.'}
        rows={isJson ? 6 : 3}
        mono={isJson}
        fault={fault}
        value={text}
        onChange={setText}
      />
      <div class={styles.fields}>
        <SelectField
          label="Assistant"
          value={chosen}
          onChange={setChosen}
          options={assistants.map(({ assistant_id, name, graph_id }) => ({
            value: assistant_id,
            label: name === graph_id ? name : `${name} (${graph_id})`,
          }))}
        />
        {hasMessages && <CheckField label="Write the input as JSON" checked={wantsJson} onChange={setWantsJson} />}
      </div>
    </Form>
  )
}
