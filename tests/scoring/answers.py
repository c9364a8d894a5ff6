r"""What models write, and whether it is right: decided by mathematics, not by what the code says.

Each row: the right answer, the text of a model, the verdict. `RIGHT`: the last box holds the right
answer. `WRONG`: it holds another. `NONE`: there is no answer. `CUT`: the reasoning is unfinished.

Two conventions are the field's and not mathematics: units, currencies, degrees and percent signs
may be left out or added, as problems ask for a number of something; and decimals that agree with an
exact value to six digits are taken for it.
"""

from __future__ import annotations

RIGHT, WRONG, NONE, CUT = "right", "wrong", "none", "cut"


def box(content: str) -> str:
    return f"So the answer is $\\boxed{{{content}}}$."


FRACTIONS = [
    (r"\frac{1}{2}", box(r"\frac{1}{2}"), RIGHT),
    (r"\frac{1}{2}", box(r"\dfrac{1}{2}"), RIGHT),
    (r"\frac{1}{2}", box(r"\tfrac12"), RIGHT),
    (r"\frac{1}{2}", box(r"\frac12"), RIGHT),
    (r"\frac{1}{2}", box("1/2"), RIGHT),
    (r"\frac{1}{2}", box("0.5"), RIGHT),
    (r"\frac{1}{2}", box(".5"), RIGHT),
    (r"\frac{1}{2}", box(r"\frac{2}{4}"), RIGHT),
    (r"\frac{1}{2}", box("½"), RIGHT),
    (r"\frac{1}{2}", box(r"\frac{2}{1}"), WRONG),
    (r"\frac{1}{3}", box("0.33"), WRONG),
    (r"\frac{1}{3}", box("0.3333"), WRONG),
    (r"\frac{14}{3}", box(r"\dfrac{14}{3}"), RIGHT),
    (r"\frac{14}{3}", box(r"4\frac{2}{3}"), RIGHT),
    (r"\frac{3}{56}", box(r"\frac{3}{56}\text{ of the pie}"), RIGHT),
    (r"\frac{243}{625}", box("0.3888"), RIGHT),
    (r"\frac{\sqrt{3}}{3}", box(r"\frac{1}{\sqrt{3}}"), RIGHT),
    (r"\frac{a}{b}", box(r"\frac{b}{a}"), WRONG),
]

MIXED_AND_NEGATIVE = [
    (r"\frac{3}{2}", box(r"1\frac{1}{2}"), RIGHT),
    (r"\frac{3}{2}", box("1 1/2"), RIGHT),
    (r"\frac{3}{2}", box("1½"), RIGHT),
    (r"2\frac{3}{4}", box("2.75"), RIGHT),
    (r"2\frac{3}{4}", box(r"\frac{11}{4}"), RIGHT),
    (r"2\frac{3}{4}", box(r"\frac{6}{4}"), WRONG),
    (r"-\frac{3}{2}", box(r"-1\frac{1}{2}"), RIGHT),
    ("-5", box("-5"), RIGHT),
    ("-5", box("−5"), RIGHT),
    ("-5", box("5"), WRONG),
    ("5", box("-5"), WRONG),
    ("5", box("+5"), RIGHT),
    (r"-\frac{1}{2}", box(r"\frac{-1}{2}"), RIGHT),
    (r"-\frac{1}{2}", box(r"\frac{1}{-2}"), RIGHT),
    (r"-\frac{1}{2}", box("-0.5"), RIGHT),
    ("0", box("-0"), RIGHT),
    ("0", box("0.0"), RIGHT),
    ("-3", box(r"\text{negative three}"), WRONG),
]

PERCENT = [
    (r"50\%", box("50"), RIGHT),
    ("50", box(r"50\%"), RIGHT),
    ("50", box("50%"), RIGHT),
    ("50", box(r"50\text{ percent}"), RIGHT),
    (r"50\%", box("0.5"), RIGHT),
    (r"\frac{3}{4}", box(r"75\%"), RIGHT),
    (r"12.5\%", box(r"12.5\,\%"), RIGHT),
    (r"12.5\%", box("12.5"), RIGHT),
    ("50", box(r"5\%"), WRONG),
    ("50", box("٥٠٪"), RIGHT),
]

UNITS = [
    ("12", box(r"12\text{ cm}"), RIGHT),
    ("12", box(r"12 \text{ dollars}"), RIGHT),
    ("12", box(r"12\,\mathrm{cm}"), RIGHT),
    ("12", box(r"12 \mathrm{~cm}"), RIGHT),
    ("12", box(r"12\text{ cm}^2"), RIGHT),
    ("12", box("12 cm"), RIGHT),
    ("12", box(r"\$12"), RIGHT),
    ("12", box("$12"), RIGHT),
    ("12", box(r"\$12.00"), RIGHT),
    ("12.5", box(r"\$12.50"), RIGHT),
    ("70", box(r"70\$"), RIGHT),
    ("70", box("€70"), RIGHT),
    ("70", box("£70"), RIGHT),
    ("70", box("¥70"), RIGHT),
    ("70", box("￥70"), RIGHT),
    ("70", box("₹70"), RIGHT),
    ("12", box(r"13\text{ cm}"), WRONG),
    (r"5.4 \text{ cents}", box("5.4"), RIGHT),
    ("204", box(r"204\text{ minutes}"), RIGHT),
    ("17", box("17 apples"), RIGHT),
]

DEGREES = [
    (r"90^\circ", box("90"), RIGHT),
    ("90", box(r"90^\circ"), RIGHT),
    ("90", box(r"90^{\circ}"), RIGHT),
    ("90", box("90°"), RIGHT),
    ("90", box(r"90\text{ degrees}"), RIGHT),
    ("90", box(r"90\degree"), RIGHT),
    ("90", box(r"45^\circ"), WRONG),
]

TEXT = [
    (r"\text{Evelyn}", box("Evelyn"), RIGHT),
    (r"\text{Evelyn}", box(r"\text{evelyn}"), RIGHT),
    (r"\text{Evelyn}", box(r"\textbf{Evelyn}"), RIGHT),
    (r"\text{Evelyn}", box(r"\mathrm{Evelyn}"), RIGHT),
    (r"\text{Evelyn}", box(r"\text{Carla}"), WRONG),
    (r"\text{even}", box(r"\text{odd}"), WRONG),
    ("17", box(r"\text{17}"), RIGHT),
    ("17", box(r"\textbf{17}"), RIGHT),
    ("17", box(r"\mathbf{17}"), RIGHT),
    ("17", box("**17**"), RIGHT),
    ("17", box("17."), RIGHT),
    ("3", box(r"\text{yes}"), WRONG),
]

INTERVALS_AND_LISTS = [
    ("[0,1]", box("[0, 1]"), RIGHT),
    ("[0,1)", box("[0,1]"), WRONG),
    ("(0,1)", box("(0,1]"), WRONG),
    (r"(-\infty, 2]", box(r"(-\infty,2]"), RIGHT),
    (r"(-\infty, 2]", box(r"\left(-\infty, 2\right]"), RIGHT),
    (r"(-\infty, 2]", box("(−∞, 2]"), RIGHT),
    (r"[-2,7]", box(r"x \in [-2,7]"), RIGHT),
    (r"(0,2) \cup (3,5)", box(r"(3,5)\cup(0,2)"), RIGHT),
    ("(1,2)", box("(1, 2)"), RIGHT),
    ("(1,2)", box("(2,1)"), WRONG),
    (r"\left( 3, \frac{\pi}{2} \right)", box(r"(3, \frac{\pi}{2})"), RIGHT),
    (r"\{1,2\}", box(r"\{2,1\}"), RIGHT),
    ("1,2", box("2, 1"), RIGHT),
    ("1,2", box(r"1 \text{ and } 2"), RIGHT),
    ("1,2", box("1"), WRONG),
    ("1,2", box("1,2,3"), WRONG),
    (r"\pm 5", box("5, -5"), RIGHT),
    (r"\pm 5", box("5"), WRONG),
]

THOUSANDS_AND_DECIMALS = [
    ("1000", box("1,000"), RIGHT),
    ("1000", box(r"1\,000"), RIGHT),
    ("1000", box("1 000"), RIGHT),
    ("1000", box("1{,}000"), RIGHT),
    ("1000", box("1'000"), RIGHT),
    ("1000", box("1~000"), RIGHT),
    ("1000", box("1\u00a0000"), RIGHT),
    ("1000", box("1\u2009000"), RIGHT),
    ("1000", box("1\u202f000"), RIGHT),
    ("1000", box("١٬٠٠٠"), RIGHT),
    ("1000000", box("1,000,000"), RIGHT),
    ("1000000", box(r"1{,}000{,}000"), RIGHT),
    ("1000", box("1000.00"), RIGHT),
    ("1000", box("10,00"), WRONG),
    ("1234", box("1.234"), WRONG),
    ("1500", box(r"1.5\times 10^3"), RIGHT),
    ("1500", box(r"1.5 \cdot 10^{3}"), RIGHT),
    ("1500", box("1.5e3"), RIGHT),
    ("3.14", box("3,14"), RIGHT),
    ("1000", box(r"\$1,000"), RIGHT),
    ("10080", box("10,080"), RIGHT),
    ("25", box("025"), RIGHT),
    ("025", box("25"), RIGHT),
    ("33", box("33.0"), RIGHT),
]

EXPRESSIONS = [
    ("x^2+1", box("1 + x^2"), RIGHT),
    ("x^2+1", box("x²+1"), RIGHT),
    ("(x+1)^2", box("x^2+2x+1"), RIGHT),
    ("p - q", box("q - p"), WRONG),
    ("5", box("x=5"), RIGHT),
    ("5", box("x = 5"), RIGHT),
    ("x=5", box("5"), RIGHT),
    ("y = 2x+3", box("y=3+2x"), RIGHT),
    (r"3\sqrt{13}", box(r"3\sqrt{13}"), RIGHT),
    (r"3\sqrt{13}", box("3√13"), RIGHT),
    (r"3\sqrt{13}", box("3√(13)"), RIGHT),
    ("1500", box("1.5×10^3"), RIGHT),
    (r"x \le 2", box("x ≤ 2"), RIGHT),
    (r"2\sqrt{2}", box(r"\sqrt{8}"), RIGHT),
    (r"\sqrt{2}", box("2^{1/2}"), RIGHT),
    (r"\sqrt{2}", box("1.41"), WRONG),
    (r"2\pi", box("2π"), RIGHT),
    (r"2\pi", box("6.28"), WRONG),
    (r"2\pi", box("6.283185307"), RIGHT),
    ("1024", box("2^{10}"), RIGHT),
    ("40320", box("8!"), RIGHT),
    ("6 - 5i", box("-5i+6"), RIGHT),
    ("6 - 5i", box("6+5i"), WRONG),
    (
        r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
        box(r"\begin{bmatrix}1\\2\end{bmatrix}"),
        RIGHT,
    ),
    (
        r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}",
        box(r"\begin{pmatrix}2\\1\end{pmatrix}"),
        WRONG,
    ),
]

DIGITS_OF_OTHER_SCRIPTS = [
    ("42", box("٤٢"), RIGHT),
    ("42", box("४२"), RIGHT),
    ("42", box("৪২"), RIGHT),
    ("42", box("４２"), RIGHT),
    ("42", box("๔๒"), RIGHT),
    ("42", box("౪౨"), RIGHT),
    ("-42", box("－４２"), RIGHT),
    ("42", box("٤٣"), WRONG),
    ("12.5", box("١٢٫٥"), RIGHT),
    ("1000", box("１，０００"), RIGHT),
    ("42", box("42円"), RIGHT),
    ("42", box("42 рубля"), RIGHT),
    ("42", box("42α"), WRONG),
    ("42", box("42。"), RIGHT),
    (r"\frac{1}{2}", box("１／２"), RIGHT),
    ("(1,2)", box("（1，2）"), RIGHT),
    ("5", box("＋5"), RIGHT),
    ("x=5", box("x＝5"), RIGHT),
    ("-5", box("–5"), RIGHT),
    ("50", box("50％"), RIGHT),
    ("1.5", box("１．５"), RIGHT),
    ("6", box("2·3"), RIGHT),
    (r"(0,\infty)", box("(0,∞)"), RIGHT),
    (r"\{1,2\}", box("1、2"), RIGHT),
]

BOXES = [
    ("7", r"First I thought \boxed{4}. No: \boxed{7}", RIGHT),
    ("4", r"First I thought \boxed{4}. No: \boxed{7}", WRONG),
    ("7", "\\boxed{7}\n\nTo repeat: \\boxed{7}", RIGHT),
    ("2,3", r"$x = \boxed{2}$ or $x = \boxed{3}$", RIGHT),
    ("2,3", r"\boxed{2} and \boxed{3}", RIGHT),
    ("2", r"\boxed{2} and \boxed{3}", WRONG),
    ("7", r"\boxed{7} is the number of ways, as 3 + 4 = 7. I hope this helps you with 12!", RIGHT),
    ("12", r"\boxed{7} is the number of ways, and not 12.", WRONG),
    ("7", r"**Answer:** \( \boxed{7} \)", RIGHT),
    ("7", r"\[ \boxed{ 7 } \]", RIGHT),
    ("7", r"\boxed 7", RIGHT),
    ("7", r"\fbox{7}", RIGHT),
    (r"\frac{\sqrt{2}}{2}", r"$\boxed{\frac{\sqrt{2}}{2}}$", RIGHT),
    (r"\{1\}", r"$\boxed{\{1\}}$", RIGHT),
    ("7", "The answer is 7.", NONE),
    ("7", "", NONE),
    ("7", r"I am to put my final answer within \boxed{}.", NONE),
    ("7", r"It is \boxed{7", NONE),
    ("7", r"It is \boxed{7} so I write \boxed{", RIGHT),
]

REASONING = [
    ("7", r"<think>It is \boxed{7}.</think>\boxed{7}", RIGHT),
    ("7", r"<think>It is \boxed{4}.</think>\boxed{7}", RIGHT),
    ("7", r"<think>It is \boxed{7}.</think>\boxed{4}", WRONG),
    ("7", r"<think>It is \boxed{7}.</think>It is seven.", NONE),
    ("7", r"It is \boxed{7}.</think>\boxed{7}", RIGHT),
    ("7", r"<think>It is \boxed{7}. Wait,", CUT),
    ("7", r"<think>a</think>\boxed{7}<think>But wait, \boxed{7}", CUT),
    ("7", r"[THINK]It is \boxed{7}", CUT),
    ("7", "<think>\n", CUT),
    ("7", r"<think>Der Wert ist \boxed{7}.\n\nMoment,", CUT),
    ("7", r"[THINK]It is \boxed{4}[/THINK]\boxed{7}", RIGHT),
]

ROWS = [
    *FRACTIONS,
    *MIXED_AND_NEGATIVE,
    *PERCENT,
    *UNITS,
    *DEGREES,
    *TEXT,
    *INTERVALS_AND_LISTS,
    *THOUSANDS_AND_DECIMALS,
    *EXPRESSIONS,
    *DIGITS_OF_OTHER_SCRIPTS,
    *BOXES,
    *REASONING,
]
