// The filter of runs as a text of the filter language, with what is wrong with it.
import { useEffect, useState } from 'preact/hooks'
import { Button } from '../../parts/button.tsx'
import { TextField } from '../../parts/form.tsx'
import styles from './runs.module.css'

type EditorProps = {
  value: string
  fault: string | undefined
  /** The filter that the field above it stands for. */
  typed: string | undefined
  onApply: (value: string) => void
  onClose: () => void
}
export default function FilterEditor({ value, fault, typed, onApply, onClose }: EditorProps) {
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  return (
    <form
      class={styles.editor}
      aria-label="Filter language"
      onSubmit={event => {
        event.preventDefault()
        onApply(text.trim())
      }}
    >
      <TextField
        label="Filter"
        mono
        value={text}
        onChange={setText}
        fault={fault}
        placeholder='and(gt(latency, "5s"), has(tags, "beta"))'
        hint={
          typed ? (
            <>
              The words and conditions above correspond to{' '}
              <button type="button" class={styles.typed} onClick={() => setText(typed)}>
                <code>{typed}</code>
              </button>
            </>
          ) : (
            'The filter language of the API. It also works in clients and in rules.'
          )
        }
      />
      <Button type="submit" look="primary">
        Apply filter
      </Button>
      <Button onClick={onClose}>Remove</Button>
    </form>
  )
}
