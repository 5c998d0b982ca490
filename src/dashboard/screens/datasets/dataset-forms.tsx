// Changes a dataset, and adds an example to it.
import { useState } from 'preact/hooks'
import { faultAt, listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { addExample, changeDataset, type Dataset } from './actions.ts'
import styles from './dataset.module.css'
import { readObject } from './preview.ts'

type FormProps = { dataset: Dataset; onClose: () => void }

export function EditDataset({ dataset, onClose }: FormProps) {
  const [name, setName] = useState(dataset.name)
  const [description, setDescription] = useState(dataset.description ?? '')
  const { start, busy, error } = useAction({ onDone: onClose, showsError: true })
  const faults = listFaults(error)
  const action = changeDataset(dataset, { name: name.trim(), description: description.trim() || null })
  return (
    <Card title="Edit the dataset" class={styles.form}>
      <Form
        label="Edit the dataset"
        error={error}
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy}>
              {action.label}
            </Button>
            <Button onClick={onClose}>Discard changes</Button>
            <CopyAs action={action} />
          </>
        }
      >
        <TextField label="Name" value={name} onChange={setName} fault={faultAt(faults, 'name')} />
        <TextField
          label="Description"
          rows={2}
          value={description}
          onChange={setDescription}
          fault={faultAt(faults, 'description')}
        />
      </Form>
    </Card>
  )
}

const NO_OBJECT = 'must be a JSON object, such as `{"question": "…"}`'

export function AddExample({ dataset, onClose }: FormProps) {
  const [inputs, setInputs] = useState('')
  const [outputs, setOutputs] = useState('')
  const [split, setSplit] = useState('')
  const [isSent, setSent] = useState(false)
  const { start, busy, error } = useAction({ onDone: onClose, showsError: true })
  const faults = listFaults(error)
  const input = readObject(inputs)
  const output = outputs.trim() ? readObject(outputs) : undefined
  const isOutputWrong = outputs.trim() !== '' && output === undefined
  const action = addExample(dataset, {
    inputs: input ?? {},
    ...(output && { outputs: output }),
    ...(split.trim() && { split: split.trim() }),
  })
  const submit = () => {
    setSent(true)
    if (input && !isOutputWrong) start(action)
  }
  return (
    <Card title="Add an example" class={styles.form}>
      <Form
        label="Add an example"
        error={error}
        onSubmit={submit}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy}>
              {action.label}
            </Button>
            <Button onClick={onClose}>Cancel</Button>
            <CopyAs action={action} />
          </>
        }
      >
        <TextField
          label="Inputs"
          mono
          rows={5}
          value={inputs}
          onChange={setInputs}
          placeholder={'{"question": "What is the capital of France?"}'}
          fault={isSent && !input ? NO_OBJECT : faultAt(faults, 'inputs')}
        />
        <TextField
          label="Expected outputs"
          mono
          rows={5}
          value={outputs}
          onChange={setOutputs}
          placeholder={'{"answer": "Paris"}'}
          fault={isSent && isOutputWrong ? NO_OBJECT : faultAt(faults, 'outputs')}
        />
        <TextField
          label="Split"
          value={split}
          onChange={setSplit}
          placeholder="base"
          fault={faultAt(faults, 'split')}
        />
      </Form>
    </Card>
  )
}
