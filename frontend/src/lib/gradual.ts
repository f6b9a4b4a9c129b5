// Values that take long to build for large programs, built in pieces while the browser is idle.

/** Number of loop iterations in a piece, which take about a millisecond. */
export const PIECE = 500;
/** Pause between turns in browsers without `requestIdleCallback`. */
const PAUSE_MS = 20;
const TURN_MS = 5;

/** A value built by a generator. Reading it early completes the generator first. */
export class Gradual<T> {
  private made: { readonly value: T } | null = null;

  constructor(private readonly pieces: Iterator<void, T>) {}

  get value(): T {
    while (!this.made) this.next();
    return this.made.value;
  }

  /** Builds the value piece by piece. */
  *make(): Generator<void> {
    while (!this.made) yield this.next();
  }

  private next(): void {
    const { done, value } = this.pieces.next();
    if (done) this.made = { value };
  }
}

const waiting: Iterator<void>[] = [];

/** Runs the pieces of a task while the browser is idle, after all earlier tasks. */
export function whenIdle(task: Iterator<void>): void {
  if (waiting.push(task) === 1) schedule();
}

function schedule(): void {
  if ("requestIdleCallback" in globalThis) requestIdleCallback(run);
  else setTimeout(() => run(turnOf(TURN_MS)), PAUSE_MS);
}

function run(turn: Pick<IdleDeadline, "timeRemaining">): void {
  try {
    do {
      let isDone: boolean | undefined = true; // a task that throws is done
      try {
        isDone = waiting[0]!.next().done;
      } finally {
        if (isDone) waiting.shift();
      }
    } while (waiting.length && turn.timeRemaining() > 1);
  } finally {
    if (waiting.length) schedule();
  }
}

function turnOf(limitMs: number): Pick<IdleDeadline, "timeRemaining"> {
  const end = performance.now() + limitMs;
  return { timeRemaining: () => end - performance.now() };
}
