// Numbers and formulas that a reader types, and numbers as text: show/formulas.py and show/words.py in JavaScript.
// A whole number is a BigInt, any other a Number, as Python has int and float.
{
  const POWERS = { "⁻": "-", "⁰": "0", "¹": "1", "²": "2", "³": "3", "⁴": "4", "⁵": "5", "⁶": "6", "⁷": "7", "⁸": "8", "⁹": "9" };
  const RAISED = Object.fromEntries(Object.entries(POWERS).map(([raised, plain]) => [plain, raised]));
  const SIGNS = { "−": "-", "·": "*", "×": "*", "÷": "/", "∞": " inf " };
  const NAMES = { inf: Infinity, infinity: Infinity, nan: NaN, true: 1n, false: 0n };
  const CONSTANTS = ["True", "False", "None"]; // words of Python's that are no names
  const LARGEST = 4096;
  const TOKEN = /\s*(?:(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+)|(\d[\d_]*\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(\*\*|\/\/|<<|>>|[-+*/%&|^~()]))/y;

  class Wrong extends Error {}
  class NoValue extends Error {}
  const whole = (...numbers) => {
    if (numbers.some((each) => typeof each !== "bigint")) throw new NoValue("//, %, shifts and bits are for whole numbers");
  };
  const notZero = (number) => { if (number == 0) throw new NoValue("division by zero"); };
  const both = (act, ints = act) => (a, b) => (
    typeof a === "bigint" && typeof b === "bigint" ? ints(a, b) : act(Number(a), Number(b)));
  const absolute = (number) => (number < 0 ? -number : number);
  const small = (a, b) => {
    if (Number(absolute(b)) * Math.max(1, Math.log2(Number(absolute(a)) + 1)) > LARGEST) throw new NoValue("the number is too large");
  };
  const floorDivide = (a, b) => { const cut = a / b; return cut * b !== a && (a < 0n) !== (b < 0n) ? cut - 1n : cut; };
  const ACTS = {
    "+": both((a, b) => a + b), "-": both((a, b) => a - b), "*": both((a, b) => a * b),
    "/": (a, b) => { notZero(b); return Number(a) / Number(b); },
    "//": (a, b) => { notZero(b); return both((x, y) => Math.floor(x / y), floorDivide)(a, b); },
    "%": (a, b) => {
      notZero(b);
      return both((x, y) => { const rest = x % y; return rest && (rest < 0) !== (y < 0) ? rest + y : rest; },
        (x, y) => x - floorDivide(x, y) * y)(a, b);
    },
    "**": (a, b) => {
      small(a, b);
      if (a == 0 && b < 0) throw new NoValue("division by zero");
      return typeof a === "bigint" && typeof b === "bigint" && b >= 0n ? a ** b : Number(a) ** Number(b);
    },
    "<<": (a, b) => { whole(a, b); small(a, b); return a << b; },
    ">>": (a, b) => { whole(a, b); return a >> b; },
    "&": (a, b) => { whole(a, b); return a & b; },
    "|": (a, b) => { whole(a, b); return a | b; },
    "^": (a, b) => { whole(a, b); return a ^ b; },
  };
  // From the loosest to the tightest, as in Python; signs and powers follow.
  const LEVELS = [["|"], ["^"], ["&"], ["<<", ">>"], ["+", "-"], ["*", "/", "//", "%"]];

  function tokens(text) {
    const found = [];
    TOKEN.lastIndex = 0;
    for (let at = 0; text.slice(at).trim(); at = TOKEN.lastIndex) {
      const match = TOKEN.exec(text);
      if (!match) throw new Wrong();
      const [, based, decimal, name, sign] = match;
      if (based) found.push({ value: BigInt(based.replaceAll("_", "")) });
      else if (/^0\d*[1-9]\d*$/.test(decimal)) throw new Wrong(); // Python takes no 012
      else if (decimal) found.push({ value: parsed(decimal.replaceAll("_", "")) });
      else found.push({ name, sign });
    }
    return found;
  }

  /** A number as Python writes it. */
  function parsed(text) {
    if (/^-?\d+$/.test(text)) return BigInt(text);
    return text in NAMES ? NAMES[text] : text === "-inf" ? -Infinity : Number(text);
  }

  function value(list, look) {
    let at = 0;
    const sign = (signs) => (list[at] && signs.includes(list[at].sign) ? list[at++].sign : null);
    const level = (number) => {
      if (number === LEVELS.length) return unary();
      let left = level(number + 1);
      for (let found = sign(LEVELS[number]); found; found = sign(LEVELS[number])) left = ACTS[found](left, level(number + 1));
      return left;
    };
    const unary = () => {
      const found = sign(["+", "-", "~"]);
      if (!found) return power();
      const inner = unary();
      if (found === "~") whole(inner);
      return found === "-" ? -inner : found === "~" ? ~inner : inner;
    };
    const power = () => {
      const base = atom();
      return sign(["**"]) ? ACTS["**"](base, unary()) : base;
    };
    const atom = () => {
      const token = list[at++];
      if (token?.sign === "(") {
        const inner = level(0);
        if (!sign([")"])) throw new Wrong();
        return inner;
      }
      if (!token || token.sign) throw new Wrong();
      return token.name ? look(token.name) : token.value;
    };
    const found = level(0);
    if (at < list.length) throw new Wrong();
    return found;
  }

  const quoted = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replaceAll("'", "\\'")}'`);
  const shown = (text) => (text.length <= 80 ? quoted(text) : `${quoted(text.slice(0, 80))}...`);

  /** The value of a formula; without variables, ^ is a power. Throws an Error that says what is wrong. */
  function evaluate(text, variables = {}) {
    const names = Object.keys(variables);
    let plain = text.replace(/[−·×÷∞]/g, (each) => SIGNS[each]);
    plain = plain.replace(/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+/g, (found) => `**(${[...found].map((each) => POWERS[each]).join("")})`);
    if (!names.length) plain = plain.replaceAll("^", "**");
    const look = (name) => {
      if (CONSTANTS.includes(name)) throw new Error(`${shown(name)} is not arithmetic: numbers, variables, + - * / // % & | << >>`);
      const found = [name, name.toLowerCase()].find((each) => each in variables || Object.hasOwn(NAMES, each));
      if (found) return found in variables ? variables[found] : NAMES[found];
      if (!names.length && text.trim().toLowerCase() === name.toLowerCase())
        throw new Error(`${shown(name.toLowerCase())} is not a number`);
      const known = names.length ? `the variables are ${listing(names, "and")}` : "there are no variables here";
      throw new Error(`${quoted(name.toLowerCase())} in ${shown(text)} is unknown; ${known}`);
    };
    try {
      const list = tokens(plain.replaceAll(",", "").trim());
      try { value(list, () => 1n); } catch (error) { if (error instanceof Wrong) throw error; } // before names are looked up
      return value(list, look);
    } catch (error) {
      if (error instanceof NoValue) throw new Error(`${shown(text)} has no value: ${error.message}`);
      if (!(error instanceof Wrong || error instanceof RangeError || error instanceof SyntaxError)) throw error;
      throw new Error(`${shown(text)} is not a number or a formula, such as 12, 0.25, 2^-13 or 0x3d`);
    }
  }

  function listing(words, last = "or") {
    return words.length === 1 ? words[0] : `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;
  }

  /** A number as Python's format with "g" writes it: ties go to the even digit. */
  function general(number, digits) {
    const [exact, power] = number.toExponential(60).split("e");
    const cut = exact.slice(0, digits + 1);
    const tie = /^50*$/.test(exact.slice(digits + 1)) && Number(cut.at(-1)) % 2 === 0;
    const rounded = Number(tie ? `${cut}e${power}` : number.toExponential(digits - 1));
    const exponent = Number(rounded.toExponential().split("e")[1]);
    const bare = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
    if (exponent < -4 || exponent >= digits) {
      return `${bare(rounded.toExponential(digits - 1).split("e")[0])}e${exponent}`;
    }
    return bare(rounded.toFixed(Math.max(0, digits - 1 - exponent)));
  }

  const superscript = (exponent) => [...String(exponent)].map((each) => RAISED[each]).join("");

  /** A number in little space, as show.words.neat writes it. */
  function written(number) {
    const size = Number(absolute(number));
    const minus = number < 0 ? "−" : "";
    if (Number.isNaN(size)) return "NaN";
    if (typeof number !== "bigint" && size === Infinity) return minus ? "−∞" : "+∞";
    const exponent = Math.log2(size);
    if (Number.isInteger(exponent) && 2 ** exponent === size && general(size, 17).length > 7) return `${minus}2${superscript(exponent)}`;
    if (typeof number === "bigint") return String(number).replace("-", "−");
    const short = general(size, 9);
    const [mantissa, power] = short.split("e");
    const sign = Object.is(number, -0) ? "−" : minus;
    return `${Number(short) === size ? "" : "≈ "}${sign}${power ? `${mantissa} × 10${superscript(Number(power))}` : mantissa}`;
  }

  window.tcemu = { ...window.tcemu, absolute, evaluate, parsed, quoted, listing, shown, written };
}
