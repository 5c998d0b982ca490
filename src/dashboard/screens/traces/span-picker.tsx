// Chooses the time that the page is about.
import { Chip } from '../../parts/field.tsx'
import { SPANS, useSpan } from './since.ts'
import styles from './traces.module.css'

export function SpanPicker() {
  const { span, setSpan } = useSpan()
  return (
    <fieldset class={styles.spans}>
      <legend>Time</legend>
      {SPANS.map(one => (
        <Chip key={one.name} pressed={one === span} onPress={() => setSpan(one.name)}>
          {one.short}
        </Chip>
      ))}
    </fieldset>
  )
}
